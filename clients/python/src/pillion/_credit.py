"""Credit in both directions: cumulative byte limits for the connection and for each stream. Pure.

Receiving: a frame's bytes count when user code takes its event, or at once when it is dropped. The
limit that the sidecar knows is what was taken plus the window. Limits go out when a quarter of a
window can be given back, and at the latest when user code waits for more.

Sending: any positive credit permits one frame of any allowed size.
"""

from __future__ import annotations

from ._codes import Code
from ._messages import Credit, Window
from ._tasks import Stream
from .errors import ProtocolError


class Receiving:
    """What the sidecar may still send."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._received = 0
        self._taken = 0
        self._granted = window.connection
        self._streams: set[Stream] = set()  # with bytes taken and not granted anew
        self._due = False

    def open(self, stream: Stream) -> None:
        """Give a new stream its first window."""
        stream.granted = self._window.stream

    def received(self, size: int, stream: Stream | None) -> None:
        """Count a frame that came. Raises ProtocolError when the credit did not allow it."""
        over = self._received >= self._granted
        if stream is not None and not stream.of.ended:
            over = over or stream.received >= stream.granted
            stream.received += size
        if over:
            raise ProtocolError("the sidecar sent more than its credit", Code.CREDIT_OVERRUN)
        self._received += size

    def taken(self, size: int, stream: Stream | None, *, now: bool = False) -> None:
        """Count a frame that was taken or dropped; now sends the limits without waiting."""
        self._taken += size
        limit = self._taken + self._window.connection
        self._due = self._due or now or limit - self._granted >= self._window.connection // 4
        if stream is not None and not stream.of.ended:
            stream.taken += size
            self._streams.add(stream)
            behind = stream.taken + self._window.stream - stream.granted
            self._due = self._due or behind >= self._window.stream // 4

    def idle(self) -> bool:
        """User code waits for more: whatever was taken is to be granted now."""
        self._due = self._due or self._taken + self._window.connection > self._granted
        return self._due

    def grant(self) -> Credit | None:
        """Make the message that is due, if one is."""
        if not self._due:
            return None
        self._due = False
        streams: dict[int, int] = {}
        for stream in self._streams:
            if not stream.of.ended:
                stream.granted = streams[stream.id] = stream.taken + self._window.stream
        self._streams.clear()
        self._granted = self._taken + self._window.connection
        return Credit(self._granted, streams)


class Sending:
    """What we may still send."""

    def __init__(self, window: Window) -> None:
        self._limit = window.connection
        self._sent = 0
        self._first = window.stream

    def open(self, stream: Stream) -> None:
        """Give a new stream its first limit."""
        stream.limit = self._first

    def raise_limits(self, message: Credit, streams: dict[int, Stream]) -> None:
        """Take new limits. One that goes down, or of an unknown stream, is late and ignored."""
        self._limit = max(self._limit, message.connection)
        for id_, limit in message.streams.items():
            if stream := streams.get(id_):
                stream.limit = max(stream.limit, limit)

    def spend(self, stream: Stream, size: int) -> bool:
        """Take the credit of one frame; False when it must wait."""
        if stream.sent >= stream.limit or self._sent >= self._limit:
            return False
        stream.sent += size
        self._sent += size
        return True
