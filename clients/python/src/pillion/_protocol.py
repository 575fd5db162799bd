"""The protocol core of one connection: messages in, events and messages out. No I/O.

Flow: the shell gives every websocket message to receive(); events go to the EventQueue; user code
takes them through take(), which grants credit. What user code answers (opened, ready, commit,
release, progress, locate) and what the core itself has to say leave through next_outgoing(); the
order there is the Outbox's.

INVARIANT: after `lost` has been received, no batch of that epoch reaches user code, and no commit
of it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import _json as json
from . import _messages as m
from . import events as ev
from ._batch import Batch
from ._codes import Code
from ._commits import Changelog, Outcome, Outputs, Pending, build, check, stale
from ._credit import Receiving, Sending
from ._frames import RESTORE, parse
from ._hold import Hold
from ._locate import Done, impossible, question
from ._outbox import Outbox
from ._queue import EventQueue, rows_of, useless_after_end
from ._streams import Streams
from ._tasks import On, State, Stream, Task, TaskState
from .errors import ConnectionLost, MessageError, PillionError, ProtocolError, UsageError

VERSION = 1
SAID = 4096  # characters of what a store's failure says, which may quote a row


class Protocol:
    """The worker's side of one connection."""

    def __init__(self, hello: m.Hello, queue: EventQueue) -> None:
        self.queue = queue
        self.welcome: m.Welcome | None = None
        self.last_error: m.Error | None = None
        """The last message, if it is an error that answers no request: why a close follows."""
        self.waiting: m.Waiting | None = None
        self._hello = hello
        self._tasks: dict[str, TaskState] = {}
        self._hung = False  # the sidecar has given our work up, and waits for a sign of it
        self._receiving = Receiving(hello.credit)
        self._streams = Streams(self._receiving)
        self._outbox = Outbox(hello, self._receiving)
        self._hold = Hold(queue)
        self._handlers: dict[type[m.Message], Callable[..., None]] = {
            m.Welcome: self._on_welcome,
            m.Assign: self._on_assign,
            m.Restoring: self._on_restoring,
            m.Restored: self._on_restored,
            m.Promoted: self._on_new_epoch,
            m.Demoted: self._on_new_epoch,
            m.Revoke: self._on_revoke,
            m.Lost: self._on_lost,
            m.Reset: self._on_reset,
            m.Committed: self._on_answer,
            m.Aborted: self._on_answer,
            m.Stale: self._on_answer,
            m.Unknown: self._on_answer,
            m.Located: self._on_located,
            m.Waiting: self._on_waiting,
            m.Credit: self._on_credit,
            m.Error: self._on_error,
        }

    # -- what comes from the sidecar ------------------------------------------------------------

    def receive(self, data: str | bytes) -> None:
        """Take one websocket message. Raises ProtocolError when the connection cannot go on."""
        if isinstance(data, str):
            self._receive_control(data)
        else:
            self._receive_frame(data)

    def _receive_control(self, text: str) -> None:
        try:
            message = json.decode(text)
        except MessageError as error:
            if error.fatal:
                raise
            self._outbox.say(m.Error(error.code, error.message, re=error.re))
            return
        if message is None:
            return
        self.last_error = None
        handler = self._handlers.get(type(message))
        early = self.welcome is None and not isinstance(message, m.Welcome | m.Error | m.Waiting)
        if handler is None or early:
            self._refuse(message, Code.NOT_ALLOWED, f"{message.TYPE} is not allowed here")
            return
        handler(message)

    def _receive_frame(self, data: bytes) -> None:
        frame = parse(data)
        size = len(data)
        stream = self._streams.by_id.get(frame.stream)
        self._receiving.received(size, stream)
        if stream is None:
            message = f"stream {frame.stream} was never assigned"
            self._drop(size, None, Code.UNKNOWN_STREAM, message, frame.stream)
        elif stream.kind != frame.kind:
            message = f"a frame of kind {frame.kind} on stream {stream.id} of {stream.name}"
            raise ProtocolError(message, Code.BAD_MESSAGE)
        elif stream.of.ended or stream.refused or frame.epoch != stream.of.task.epoch:
            self._receiving.taken(size, stream, now=True)
        elif not stream.of.allows(On.RECORDS_FRAME if stream.records else On.RESTORE_FRAME):
            if stream.of.state is State.REVOKING:
                self._receiving.taken(size, stream, now=True)
            else:
                message = f"a frame of {stream.name} before task {stream.of.task.name} takes it"
                self._drop(size, stream, Code.NOT_ALLOWED, message, stream.id)
        elif stream.next not in (None, frame.base):
            stream.refused = True
            message = f"a frame of {stream.name} starts at {frame.base}, not at {stream.next}"
            self._drop(size, stream, Code.OFFSET_MISMATCH, message, stream.id)
        else:
            stream.next = frame.next
            task = stream.of.task
            batch = Batch(frame, task, stream.topic, stream.name, stream.fence)
            self.queue.put(ev.Records(task, batch) if stream.records else ev.Restore(task, batch))

    def _drop(self, size: int, stream: Stream | None, code: Code, message: str, id_: int) -> None:
        self._receiving.taken(size, stream, now=True)
        task, epoch = (stream.of.task.name, stream.of.task.epoch) if stream else ("", 0)
        self._outbox.say(m.Error(code.value, message, task=task, epoch=epoch, stream=id_))

    def _on_welcome(self, message: m.Welcome) -> None:
        if self.welcome is not None or message.re != self._hello.id:
            raise ProtocolError("a welcome that answers no hello", Code.NOT_ALLOWED)
        if message.version not in self._hello.versions:
            text = f"the sidecar chose protocol version {message.version}, which was not offered"
            raise ProtocolError(text, Code.VERSION)
        self.welcome = message
        self._outbox.sending = self._streams.sending = Sending(message.credit)

    def _on_assign(self, message: m.Assign) -> None:
        before = self._tasks.get(message.task)
        if before is not None and not before.ended:
            text = f"task {message.task} is assigned already under epoch {before.task.epoch}"
            self._refuse(message, Code.NOT_ALLOWED, text)
            return
        task = Task(
            message.task, message.set, message.partition, message.role, message.epoch,
            {t.name: t for t in message.tables}, {s.topic: s for s in message.sources},
            {o.topic: o for o in message.outputs},
        )  # fmt: skip
        self._tasks[task.name] = self._streams.open(task, State.OPENING, message.id)
        self.queue.put(ev.Assigned(task))

    def _on_restoring(self, message: m.Restoring) -> None:
        if state := self._current(message, On.RESTORING):
            progress = (message.records, message.bytes, message.rate, message.remaining)
            rest = (message.eta_ms, message.waits_for)
            self.queue.put(ev.Restoring(state.task, message.table, *progress, *rest))

    def _on_restored(self, message: m.Restored) -> None:
        if state := self._current(message, On.RESTORED):
            state.restored.append(message.id)
            state.whole = True
            self.queue.put(ev.Restored(state.task))

    def _on_new_epoch(self, message: m.Promoted | m.Demoted) -> None:
        promoted = isinstance(message, m.Promoted)
        task = self._tasks.get(message.task)
        if task is None or task.ended:
            return
        right = not promoted or task.task.role == "standby"
        if not right or not task.go(On.PROMOTED if promoted else On.DEMOTED):
            self._refuse(message, Code.NOT_ALLOWED, f"{message.TYPE} is not allowed here")
            return
        was = task.task
        tables = {t.name: t for t in message.tables}
        sources = {s.topic: s for s in message.sources} if promoted else {}
        outputs = {o.topic: o for o in message.outputs} if promoted else {}
        role = "active" if promoted else "standby"
        now = Task(was.name, was.set, was.partition, role, message.epoch, tables, sources, outputs)
        after = State.PROMOTED if promoted else State.RESTORING
        made = self._tasks[now.name] = self._streams.open(now, after, 0, task)
        if isinstance(message, m.Promoted):
            made.restored.append(message.id)
            self.queue.put(ev.Promoted(now, was))
        else:
            made.was = was
            self._outbox.abandon(task)
            self._hold.drop(was, self._dropped)
            self.queue.drop(lambda e: isinstance(e, ev.Records) and e.task is was, self._dropped)
            self.queue.put(ev.Demoted(now, was))

    def _on_revoke(self, message: m.Revoke) -> None:
        if state := self._current(message, On.REVOKE):
            state.request = message.id
            self._drop_queued(state.task)
            self.queue.overtake(ev.Revoking(state.task, message.deadline_ms, message.code))

    def _on_lost(self, message: m.Lost) -> None:
        self._hung = self._hung or message.code == Code.HUNG
        released = self._tasks.get(message.task)
        if released is not None and released.ended and released.task.epoch == message.epoch:
            self._outbox.abandon(released)  # too late: the sidecar did not wait
        elif state := self._current(message, On.LOST):
            self._lose(state, message.code, message.message)

    def _lose(self, state: TaskState, code: str, message: str) -> None:
        self._outbox.abandon(state)
        self._drop_queued(state.task)
        self.queue.overtake(ev.Lost(state.task, code, message))

    def _drop_queued(self, task: Task) -> None:
        self._hold.drop(task, self._dropped)
        self.queue.drop(useless_after_end(task), self._dropped)

    def _on_reset(self, message: m.Reset) -> None:
        state = self._current(message, On.RESET)
        if state is None:
            return
        stream = state.table(message.table)
        if stream is None:
            text = f"task {message.task} has no table {message.table}"
            self._refuse(message, Code.BAD_MESSAGE, text)
            return
        stream.fence.broken = True
        self.queue.drop(rows_of(state.task, message.table), self._dropped)
        if message.stream != stream.id:
            state.streams.remove(stream)
            stream.refused = True
            name, topic = stream.name, stream.topic
            stream = self._streams.add(state, message.stream, name, topic, RESTORE, None)
        stream.fence = type(stream.fence)()
        stream.refused = False
        stream.next = message.next_offset
        state.resets[message.table] = message.id
        self._hold.begin(state)
        self.queue.overtake(ev.Reset(state.task, message.table, message.code, message.message))

    def _on_answer(self, message: m.Committed | m.Aborted | m.Stale | m.Unknown) -> None:
        self._outbox.answer(message)

    def _on_waiting(self, message: m.Waiting) -> None:
        self.waiting = message
        self.queue.put(ev.Waiting(message.code, message.message))

    def _on_credit(self, message: m.Credit) -> None:
        assert self._outbox.sending is not None  # nothing but welcome is allowed before it
        self._outbox.sending.raise_limits(message, self._streams.by_id)

    def _on_located(self, message: m.Located) -> None:
        self._outbox.tell(message)

    def _on_error(self, message: m.Error) -> None:
        if not self._outbox.answer(message) and not self._outbox.tell(message):
            self.last_error = message

    def _current(
        self, message: m.Restoring | m.Restored | m.Revoke | m.Lost | m.Reset, on: On
    ) -> TaskState | None:
        """Find the living epoch of a message and make the transition, or answer why not."""
        state = self._tasks.get(message.task)
        if state is None or message.epoch != state.task.epoch or state.ended:
            return None  # stale: it needs no answer
        unasked = on is On.RESTORED and state.state is not State.RESTORING and not state.holding
        if unasked or not state.go(on):
            text = f"{message.TYPE} of epoch {message.epoch} is not allowed in {state.state.name}"
            self._refuse(message, Code.NOT_ALLOWED, text)
            return None
        return state

    def _refuse(self, message: m.Message, code: Code, text: str) -> None:
        self._outbox.say(m.Error(code.value, text, re=json.request_id(message)))

    # -- what user code says --------------------------------------------------------------------

    def take(self, busy: Callable[[ev.Event], bool] | None = None) -> ev.Event | None:
        """Take the next event, or the next that is not busy. Its bytes are granted anew."""
        if self._hung:
            self._hung = False
            self.progress()
        event = self.queue.take(busy)
        if isinstance(event, ev.Restore | ev.Records):
            self._took(event.batch, now=False)
        return event

    def idle(self) -> bool:
        """User code waits for more; True when there is something to send for it."""
        return self._receiving.idle()

    def _dropped(self, event: ev.Event) -> None:
        if isinstance(event, ev.Restore | ev.Records):
            self._took(event.batch, now=True)

    def _took(self, batch: Batch, *, now: bool) -> None:
        stream = self._streams.by_id.get(batch.stream)
        # A batch of an earlier connection that was queued then owes nothing to this one.
        if stream is not None and stream.of.task is batch.task:
            self._receiving.taken(batch.nbytes, stream, now=now)

    def lives(self, task: Task) -> bool:
        """Say whether the epoch goes on, as far as the sidecar has said."""
        return self._own(task) is not None

    def keeps(self, task: Task) -> bool:
        """Say whether what was committed in the epoch still belongs into its stores."""
        state = self._tasks.get(task.name)
        return state is not None and not state.ended and task in (state.task, state.was)

    def whole(self, task: Task) -> bool:
        """Say whether no reset has come behind the newest restored: its rows are all there."""
        state = self._own(task)
        return state is not None and state.whole

    def opened(self, task: Task, checkpoints: Mapping[str, str | None]) -> None:
        """Answer Assigned (every table) or Reset (the one table)."""
        state = self._own(task)
        if state is None:
            return
        if state.state is State.OPENING:
            missing = task.tables.keys() - checkpoints.keys()
            if missing or checkpoints.keys() - task.tables.keys():
                raise UsageError(
                    f"opened({task.name}) names the tables {sorted(checkpoints)}; "
                    f"name all of {sorted(task.tables)}"
                )
            state.go(On.OPENED)
            self._outbox.say(m.Opened(state.request, task.name, task.epoch, dict(checkpoints)))
            return
        for table, checkpoint in checkpoints.items():
            request = state.resets.pop(table, None)
            if request is not None:
                answer = m.Opened(request, task.name, task.epoch, {table: checkpoint})
                self._outbox.say(answer)

    def ready(self, task: Task) -> None:
        """Answer Restored or Promoted."""
        state = self._own(task)
        if state is None or not state.restored:
            return
        self._outbox.say(m.Ready(state.restored.pop(0), task.name, task.epoch))
        if not state.restored and state.go(On.READY):
            state.holding = state.holding and not state.whole
            self._hold.go_on(self._tasks.values())

    def release(self, task: Task) -> None:
        """Answer Revoking. Leaves behind the commits made before."""
        state = self._own(task)
        if state is None:
            return
        if not state.go(On.RELEASED):
            raise UsageError(
                f"release({task.name}) answers Revoking; the task is not being revoked"
            )
        self._outbox.release(state, m.Released(state.request, task.name, task.epoch))

    def progress(self) -> None:
        """Say that the worker is alive and working."""
        self._outbox.say(m.Progress())

    def fail(self, task: Task, code: str, message: str, table: str = "") -> None:
        """Tell the sidecar that a store cannot be used; it opens the task anew."""
        state = self._own(task)
        if state is not None:
            opening = state.state is State.OPENING
            re = state.request if opening else state.resets.pop(table, 0)
            stream = state.table(table)
            id_ = stream.id if stream else 0
            answer = m.Error(
                code, message[:SAID], re=re, task=task.name, epoch=task.epoch, stream=id_
            )
            self._outbox.say(answer)

    def commit(
        self,
        task: Task,
        source_next: Mapping[str, int],
        changelog: Changelog,
        outputs: Outputs,
        done: Callable[[Outcome], None],
    ) -> None:
        """Queue a commit; done is called once with how it ended. Raises CommitRejected at once."""
        state = self._own(task)
        if state is None or self.welcome is None:
            done(stale(task.name))
            return
        limits = self.welcome.limits
        check(state, source_next, min(2, limits.max_outstanding_commits))
        id_ = self._outbox.next_id()
        frames = build(state, id_, changelog, outputs, limits)
        self._outbox.begin(Pending(id_, state, dict(source_next), done, frames))

    def locate(
        self, table: str, key: bytes | None, set_: str, partition: int | None, done: Done
    ) -> None:
        """Ask who holds a key; done is called once. Raises UsageError at once."""
        message = question(self._outbox.next_id(), table, key, set_, partition)
        if self.welcome is None:
            done(ConnectionLost("the sidecar is not connected; ask again"))
        elif error := impossible(
            message,
            self.welcome.features,
            self._outbox.questions,
            self.welcome.limits.max_control,
        ):
            done(error)
        else:
            self._outbox.ask(message, done)

    def _own(self, task: Task) -> TaskState | None:
        """Find the state of a task that user code holds; None when its epoch is over."""
        state = self._tasks.get(task.name)
        return state if state is not None and state.task is task and not state.ended else None

    # -- what goes to the sidecar ---------------------------------------------------------------

    def next_outgoing(self) -> str | bytes | None:
        """Give the next websocket message that may be sent now; None when there is none."""
        return self._outbox.next()

    def closed(self, error: PillionError, code: str) -> None:
        """End the connection: every task is lost, every commit without an answer fails."""
        self._outbox.close(error)
        for state in self._tasks.values():
            if state.go(On.LOST):
                self._lose(state, code, error.message)
