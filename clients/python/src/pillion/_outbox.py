"""What leaves on one connection: limits first, then control, then commits in order. Pure.

INVARIANT: the frames of a commit are contiguous among data and its `commit` follows them.
INVARIANT: `released` leaves behind the commits that were made before it.
"""

from __future__ import annotations

from collections import deque

from . import _json as json
from . import _messages as m
from ._commits import Outcome, Pending, outcome, stale
from ._credit import Receiving, Sending
from ._locate import Done
from ._locate import answer as located
from ._tasks import TaskState
from .errors import PillionError


class Outbox:
    """Messages and commits that wait to be sent, and commits that wait for their answer."""

    def __init__(self, hello: m.Hello, receiving: Receiving) -> None:
        self.sending: Sending | None = None  # from welcome on
        self._receiving = receiving
        self._control: deque[m.Message] = deque([hello])
        self._ordered: deque[Pending | tuple[TaskState, m.Released]] = deque()
        self._pending: dict[int, Pending] = {}
        self._questions: dict[int, Done] = {}
        self._last_id = hello.id
        self._closed: PillionError | None = None

    def say(self, message: m.Message) -> None:
        """Send a control message; it overtakes commits."""
        self._control.append(message)

    def release(self, state: TaskState, message: m.Released) -> None:
        """Send released behind the commits."""
        self._ordered.append((state, message))

    def next_id(self) -> int:
        """Give the id that the next request will have."""
        return self._last_id + 1

    @property
    def questions(self) -> int:
        """How many have no answer yet."""
        return len(self._questions)

    def ask(self, message: m.Locate, done: Done) -> None:
        """Send a question; it overtakes commits. done is called once."""
        if self._closed is not None:
            done(self._closed)
            return
        self._last_id = message.id
        self._questions[message.id] = done
        self._control.append(message)

    def tell(self, message: m.Located | m.Error) -> bool:
        """End the question that the message answers; False when it answers none."""
        done = self._questions.pop(message.re, None)
        if done is not None:
            done(located(message))
        return done is not None

    def begin(self, pending: Pending) -> None:
        """Send a commit when its turn comes."""
        self._last_id = pending.id
        pending.of.commits += 1
        self._pending[pending.id] = pending
        self._ordered.append(pending)

    def answer(self, message: m.Committed | m.Aborted | m.Stale | m.Unknown | m.Error) -> bool:
        """End the commit that the message answers; False when it answers none."""
        pending = self._pending.get(message.re)
        if pending is None:
            return False
        if pending in self._ordered:  # refused before it was whole
            self._ordered.remove(pending)
        self._end(pending, outcome(message))
        return True

    def abandon(self, state: TaskState) -> None:
        """End what an over epoch still wanted to send.

        A commit that has not begun fails here. One that has begun is ended with its `commit`, so
        that the sidecar answers it (stale) and knows that no more frames of it follow.
        """
        for item in list(self._ordered):
            if isinstance(item, tuple):
                if item[0] is state:
                    self._ordered.remove(item)
            elif item.of is state and item.started:
                item.frames.clear()
            elif item.of is state:
                self._ordered.remove(item)
                self._end(item, stale(state.task.name))

    def close(self, error: PillionError) -> None:
        """Fail every commit and question without an answer; nothing more is sent."""
        self._closed = error
        self._ordered.clear()
        self._control.clear()
        for pending in list(self._pending.values()):
            self._end(pending, error)
        for done in self._questions.values():
            done(error)
        self._questions.clear()

    def next(self) -> str | bytes | None:
        """Give the next websocket message that may be sent now; None when there is none."""
        if grant := self._receiving.grant():
            return json.encode(grant)
        if self._control:
            return json.encode(self._control.popleft())
        if not self._ordered:
            return None
        head = self._ordered[0]
        if isinstance(head, tuple):
            self._ordered.popleft()
            return json.encode(head[1])
        if not head.frames:
            self._ordered.popleft()
            return json.encode(head.message())
        stream, frame = head.frames[0]
        assert self.sending is not None  # a commit needs a task, and a task a welcome
        if not self.sending.spend(stream, len(frame)):
            return None
        head.started = True
        head.frames.popleft()
        return frame

    def _end(self, pending: Pending, how: Outcome) -> None:
        del self._pending[pending.id]
        pending.of.commits -= 1
        pending.done(how)
