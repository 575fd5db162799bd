"""One connection of a worker: its epochs and streams, what is sent, and who checks what comes.

INVARIANT: nothing here waits. What a worker does wrong raises Fault at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ... import _json as json
from ... import _messages as m
from ..._frames import Frame
from ..._frames import parse as parse_frame
from ...errors import FrameError, MessageError
from .control import Control
from .epoch import Commit, Epoch, Item, Kind, Stream, split
from .fault import Fault
from .intake import Intake
from .sidecar import Link, Sidecar

_EXTRA = ',"x_nobody_knows":{"a":[1,null,1.5e3,"\\u0000"],"type":"lost"}}'
_M = TypeVar("_M", m.Opened, m.Ready, m.Released, m.Commit)


class Session:
    """From hello to the end."""

    def __init__(self, sidecar: Sidecar, link: Link) -> None:
        self.sidecar = sidecar
        self.kafka = sidecar.kafka
        self.link = link
        self.hello: m.Hello | None = None
        self.tasks: dict[str, Epoch] = {}
        """The newest epoch of each task."""
        self.epochs: dict[int, Epoch] = {}
        self.streams: dict[int, Stream] = {}
        self.held: list[Commit] = []
        """Commits that are whole and without an answer, in order."""
        self.sent = self.limit = 0
        """Bytes of frames that we sent, and may send."""
        self.received = 0
        self.granted = sidecar.settings.credit.connection
        self.lively = False
        """Whether progress came since the last lost."""
        self.ended = False
        self.code = 0
        """Of the close; 0: none."""
        self.last_request = 0
        self._last_id = 0
        self._last_stream = 0
        self._intake = Intake(self)
        self._control = Control(self, self._intake)

    @property
    def member(self) -> m.Holder:
        """The worker, as locate names it."""
        return m.Holder("this-worker", self.declared.address)

    @property
    def credited(self) -> bool:
        """Whether every byte that was sent has been granted anew: the worker has taken it all."""
        whole = self.limit >= self.declared.credit.connection + self.sent
        return whole and all(
            stream.limit >= stream.window + stream.sent
            for stream in self.streams.values()
            if stream.epoch.living
        )

    @property
    def declared(self) -> m.Hello:
        """The worker's hello."""
        if self.hello is None:
            raise ValueError("hello has not come yet")
        return self.hello

    # -- to the worker --------------------------------------------------------------------------

    def say(self, message: m.Message) -> None:
        """Send a control message."""
        self.text(json.encode(message))

    def text(self, text: str) -> None:
        """Send a control message that is encoded."""
        if self.sidecar.settings.extra:
            text = text.removesuffix("}") + _EXTRA
        self.put(text)

    def put(self, data: str | bytes) -> None:
        """Send a websocket message as it is."""
        if not self.ended:
            self.link.post(data)

    def next_id(self) -> int:
        """Number a request."""
        self._last_id += 1
        return self._last_id

    def greet(self) -> None:
        """Answer hello."""
        settings = self.sidecar.settings
        self.say(
            m.Welcome(
                re=self.declared.id,
                version=1,
                session=settings.session,
                sidecar=m.Software("simulated", "1"),
                group=self.declared.group or settings.group,
                guarantee="at_least_once",
                limits=settings.limits,
                credit=settings.credit,
                deadlines=settings.deadlines,
                features=["locate"],
            )
        )

    def pump(self) -> None:
        """Send what waits, as far as the worker's credit allows.

        A frame without credit stops only what is behind it in its own task.
        """
        for name in sorted(self.tasks):
            epoch = self.tasks[name]
            while epoch.queue and epoch.living:
                stream, data, sent = epoch.queue[0]
                if stream is None:
                    self.text(str(data))
                elif not self.may_send(stream):
                    break
                else:
                    self.sent, stream.sent = self.sent + len(data), stream.sent + len(data)
                    stream.sizes.append(len(data))
                    self.put(data)
                epoch.queue.popleft()
                if sent is not None:
                    sent()

    def may_send(self, stream: Stream) -> bool:
        """Whether a frame may leave now."""
        return stream.sent < stream.limit and self.sent < self.limit

    def in_stream(self, epoch: Epoch, message: m.Message, sent: Callable[[], None]) -> None:
        """Send a message behind the frames of its task."""
        epoch.queue.append(Item(None, json.encode(message), sent))
        self.pump()

    # -- epochs ---------------------------------------------------------------------------------

    def begin(self, task: str, role: m.Role) -> Epoch:
        """Make an epoch with its streams; the one before is over."""
        set_, partition = split(task)
        if task in self.tasks:
            self.tasks[task].state = "over"
        sidecar, hello = self.sidecar, self.declared
        sidecar.epochs += 1
        wire_name = f'§ {task.encode().hex()} "/\\ 9' if sidecar.settings.odd_names else task
        epoch = Epoch(task, wire_name, set_, partition, sidecar.epochs, role)
        if role == "global":
            topic = next(each.topic for each in hello.globals if each.name == set_)
            epoch.tables[set_] = self._stream(epoch, set_, topic, "global")
        else:
            declared = next(each for each in hello.sets if each.name == set_)
            for table in declared.tables:
                kind: Kind = "source" if table.source_topic else "changelog"
                topic = table.source_topic or table.changelog or self.changelog(table.name)
                epoch.tables[table.name] = self._stream(epoch, table.name, topic, kind)
            if role == "active":
                for topic in declared.sources:
                    self._source(epoch, topic)
                for topic in hello.outputs:
                    epoch.outputs[topic] = self._stream(epoch, topic, topic, "output")
        self.tasks[task] = self.epochs[epoch.number] = epoch
        return epoch

    def changelog(self, table: str) -> str:
        """The topic of a table that names none."""
        return f"{self.declared.group or self.sidecar.settings.group}-{table}-changelog"

    def find(self, message: _M) -> Epoch | None:
        """Give the epoch of a message; None when it is over."""
        epoch = self.epochs.get(message.epoch)
        if epoch is None or epoch.wire_name != message.task:
            raise Fault(
                "a task and an epoch that were assigned on this connection",
                f"{message.TYPE} of task {message.task}, epoch {message.epoch}",
                "name task and epoch exactly as assign, promoted or demoted gave them",
            )
        return epoch if epoch.living else None

    def over_when_answered(self, epoch: Epoch) -> None:
        """End a released epoch whose commits are all answered."""
        if epoch.state == "released" and not self.waiting(epoch):
            epoch.state = "over"

    def waiting(self, epoch: Epoch) -> int:
        """Count the commits of an epoch without an answer."""
        return sum(commit.epoch is epoch for commit in self.held)

    def answer(self, commit: Commit, with_: str, *, code: str = "", lands: bool = False) -> None:
        """End a commit. lands: Kafka has it, whatever the worker is told."""
        self._intake.answer(commit, with_, code, lands=lands or with_ == "committed")

    def refund(self, stream: Stream) -> None:
        """Give credit for what came on a stream, unless it is held."""
        self._intake.refund(stream)

    def _source(self, epoch: Epoch, topic: str) -> None:
        stream = epoch.sources[topic] = self._stream(epoch, topic, topic, "records")
        stream.position = epoch.next[topic] = self.kafka.positions[topic, epoch.partition]
        stream.ends[stream.position] = True

    def _stream(self, epoch: Epoch, name: str, topic: str, kind: Kind) -> Stream:
        self._last_stream += 3  # numbers need not be dense
        window = self.declared.credit.stream
        made = Stream(
            self._last_stream, epoch, name, topic, kind, window, window,
            self.sidecar.settings.credit.stream,
        )  # fmt: skip
        self.streams[made.id] = made
        return made

    # -- from the worker ------------------------------------------------------------------------

    def receive(self, data: str | bytes) -> None:
        """Take one message. Raises Fault."""
        if self.ended:
            return
        if isinstance(data, bytes):
            self._receive_frame(data)
            return
        if len(data.encode()) > (most := self.sidecar.settings.limits.max_control):
            raise Fault(f"control messages of at most {most} bytes", f"one of {len(data)}")
        try:
            message = json.decode(data)
        except MessageError as error:
            raise Fault("messages as in spec/schema", f"{error.message}: {data[:200]}") from None
        if message is None:
            return
        self.sidecar.trace.append(f"worker: {data[:300]}")
        if message.TYPE in self.sidecar.forbidden:
            raise Fault(f"no {message.TYPE} now", data[:200])
        self._control.take(message, data)

    def finish(self, code: int) -> None:
        """Take the end of the connection. What has no answer has not reached Kafka."""
        if not self.ended:
            self.ended, self.code, self.held = True, code, []
            self.sidecar.trace.append(f"worker: end of the connection, close {code}")

    def _receive_frame(self, data: bytes) -> None:
        if self.hello is None:
            raise Fault("hello, and nothing else before welcome", "a data frame")
        try:
            frame = parse_frame(data)
        except FrameError as error:
            raise Fault("frames as in PROTOCOL.md, section 5", str(error)) from None
        self.sidecar.trace.append(f"worker: frame of {frame.count} records, commit {frame.base}")
        self._intake.frame(frame, self._writes(frame))

    def _writes(self, frame: Frame) -> Stream:
        stream = self.streams.get(frame.stream)
        if stream is None:
            raise Fault("frames on streams that were given", f"one on stream {frame.stream}")
        if frame.epoch != stream.epoch.number:
            raise Fault(f"epoch {stream.epoch.number} on stream {stream.id}", f"{frame.epoch}")
        if stream.kind not in ("output", "changelog"):
            raise Fault("writes to changelogs and outputs", f"writes to {stream.name}")
        return stream
