"""The sidecar as a whole: one Kafka, at most one session, and events that wait to be handled."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ... import _messages as m
from .fault import Fault
from .kafka import Kafka

if TYPE_CHECKING:
    from .epoch import Stream
    from .session import Session

Event = Callable[[], None]
LIMITS = m.Limits(16 << 20, 1 << 20, 16 << 20, 2)
CREDIT = m.Window(1 << 20, 1 << 20)
DEADLINES = m.Deadlines(10_000, 10_000, 300_000)
POLL = 0.002  # seconds between two looks at what makes no event, like a file


@dataclass(frozen=True, slots=True)
class Manner:
    """How messages are put onto the wire."""

    fragment: int = 0
    """Bytes of a websocket fragment; 0: a message is one."""
    pings: bool = False
    """With a ping between two fragments."""
    chunk: int = 0
    """Bytes that are written at once; 0: all."""
    glue: bool = False
    """Messages are kept until the manner changes, then written at once."""


class Link(Protocol):
    """The way to a worker. What comes from it is posted to the Sidecar."""

    def post(self, data: str | bytes) -> None:
        """Send a text or binary message; never wait."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Begin to close; the end is an event."""
        ...

    def cut(self) -> None:
        """End without a close code."""
        ...

    def change(self, manner: Manner) -> None:
        """Write in another manner from now on. Raises ValueError where that means nothing."""
        ...

    def ping(self, size: int) -> None:
        """Send a ping with so many bytes. Raises ValueError where that means nothing."""
        ...


class Worker(Protocol):
    """The program under test. code is None until it has ended."""

    @property
    def code(self) -> int | None:
        """Exit code: 128 + signal when it was killed."""
        ...

    def ended(self) -> str:
        """Say how it has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What the sidecar says in welcome, and what it looks like on the wire."""

    group: str = "test"
    session: str = "test"
    limits: m.Limits = LIMITS
    credit: m.Window = CREDIT
    deadlines: m.Deadlines = DEADLINES
    odd_names: bool = False
    """Tasks have names that cannot be taken apart."""
    extra: bool = False
    """Each message has a field that nobody knows."""
    partitions: int = 1
    """Of every topic, for locate."""
    patience: float = 10.0
    """Seconds that a worker may take for each thing that it owes."""


class Fate(NamedTuple):
    """How a commit ends."""

    with_: str
    code: str
    lands: bool


@dataclass(slots=True)
class Sidecar:
    """State that outlives connections."""

    settings: Settings = field(default_factory=Settings)
    kafka: Kafka = field(default_factory=Kafka)
    session: Session | None = None
    worker: Worker | None = None
    answers_held: bool = False
    """Commits get no answer, and do not land."""
    fates: deque[Fate] = field(default_factory=deque["Fate"])
    """How the next commits end; without any they are committed."""
    credit_held: bool = False
    owed: list[Stream] = field(default_factory=list["Stream"])
    """What credit is due for while it is held."""
    hears: Callable[[dict[str, Any]], bool] | None = None
    """Says whether an error of the worker is wanted now."""
    forbidden: Container[str] = ()
    """Types of messages that must not come now."""
    leaving: bool = False
    """The end of the connection or of the worker is expected now."""
    trace: deque[str] = field(default_factory=lambda: deque[str](maxlen=40))
    """What was said lately, for people."""
    epochs: int = 0
    _events: deque[Event] = field(default_factory=deque[Event])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def now(self) -> Session:
        """The present session, which may have ended."""
        if self.session is None:
            raise ValueError("there is no connection yet")
        return self.session

    @property
    def quiet(self) -> bool:
        """Whether everything that has happened is handled."""
        return not self._events

    def handle(self) -> None:
        """Handle what has happened. Raises Fault."""
        self._changed.clear()
        while self._events:
            self._events.popleft()()

    async def change(self, seconds: float) -> None:
        """Wait until something happens, but not for longer."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def post(self, event: Event) -> None:
        """Queue what has happened; it is handled when somebody waits."""
        self._events.append(event)
        self._changed.set()

    async def until(
        self, want: str, met: Callable[[], bool], *, within: float | None = None, poll: bool = False
    ) -> None:
        """Handle events one by one until met. Raises Fault when it takes too long.

        poll looks every few milliseconds, for what makes no event.
        """
        patience = self.settings.patience if within is None else within
        end = asyncio.get_running_loop().time() + patience
        while not met():
            self._alive(want)
            if self._events:
                self._events.popleft()()
                continue
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                raise Fault(want, f"nothing of it within {patience:g} s{self._standing()}")
            self._changed.clear()
            waiting = self._changed.wait()
            try:
                await asyncio.wait_for(waiting, min(left, POLL) if poll else left)
            except TimeoutError:
                continue

    async def idle(self, seconds: float) -> None:
        """Let time go by; what comes is checked."""
        clock = asyncio.get_running_loop()
        end = clock.time() + seconds
        patience = seconds + self.settings.patience
        await self.until(
            "a worker that goes on", lambda: clock.time() >= end, within=patience, poll=True
        )

    def _alive(self, want: str) -> None:
        if self.leaving or self._events:  # its last words are on their way
            return
        gone = self.session is None or self.session.ended
        if self.worker is not None and self.worker.code is not None and gone:
            raise Fault(want, self.worker.ended())
        if self.session is not None and self.session.ended:
            code = self.session.code
            how = f"with {code}" if code else "without a close code"
            raise Fault(want, f"the worker ended the connection {how}")

    def _standing(self) -> str:
        """Say what is known to stand still."""
        session = self.session
        if session is None or session.ended:
            return ""
        for epoch in session.tasks.values():
            stream = epoch.queue[0].stream if epoch.living and epoch.queue else None
            if stream is not None and not session.may_send(stream):
                return (
                    f"; frames for {stream.name} wait for the worker's credit (stream: sent "
                    f"{stream.sent} of {stream.limit}, connection: {session.sent} of "
                    f"{session.limit})"
                )
        return ""
