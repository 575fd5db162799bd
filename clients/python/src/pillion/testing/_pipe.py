"""A websocket without a socket: two ends in one event loop, for tests that need no network.

pipe() gives both ends. What one end sends the other receives, in order and never lost; a close
reaches the other end behind what was sent before it, with code and reason, as ConnectionClosed of
the websockets package. Nothing is bounded: the protocol's credit bounds what is on its way.
"""

from __future__ import annotations

import asyncio
from collections import deque

from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close

_QUIET = (1000, 1001)


class PipeEnd:
    """One end. Has what a Connection needs of a websocket: recv, send and close."""

    def __init__(self) -> None:
        self._other: PipeEnd = self
        self._arrived: deque[str | bytes] = deque()
        self._changed = asyncio.Event()
        self._over = False
        self._closed_by_us: bool | None = None
        self._close: Close | None = None

    async def recv(self) -> str | bytes:
        """Give the next message. Raises ConnectionClosed once all of them were taken."""
        while not self._arrived:
            if self._over:
                raise self._end()
            self._changed.clear()
            await self._changed.wait()
        return self._arrived.popleft()

    async def send(self, message: str | bytes) -> None:
        """Send a text or binary message. Raises ConnectionClosed after the end."""
        self.post(message)

    def post(self, message: str | bytes) -> None:
        """Send without waiting: there is always room."""
        if self._over:
            raise self._end()
        self._other._take(message)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close both ends. Does nothing when they are closed."""
        self._finish(Close(code, reason), ours=True)
        self._other._finish(Close(code, reason), ours=False)
        await asyncio.sleep(0)

    def cut(self) -> None:
        """End both ends without a close code, as a crash does."""
        self._finish(None, ours=True)
        self._other._finish(None, ours=False)

    @property
    def close_code(self) -> int | None:
        """The code of the close; 1006 without one, None before the end."""
        if not self._over:
            return None
        return self._close.code if self._close else 1006

    def _take(self, message: str | bytes) -> None:
        self._arrived.append(message)
        self._changed.set()

    def _finish(self, close: Close | None, *, ours: bool) -> None:
        if not self._over:
            self._over, self._close, self._closed_by_us = True, close, ours
            self._changed.set()

    def _end(self) -> ConnectionClosed:
        close = self._close
        if close is None:
            return ConnectionClosedError(None, None)
        kind = ConnectionClosedOK if close.code in _QUIET else ConnectionClosedError
        return kind(close, close, not self._closed_by_us)

    def _join(self, other: PipeEnd) -> None:
        self._other, other._other = other, self


def pipe() -> tuple[PipeEnd, PipeEnd]:
    """Make two ends that are joined."""
    one, other = PipeEnd(), PipeEnd()
    one._join(other)  # pyright: ignore[reportPrivateUsage] - the pair is made here alone
    return one, other
