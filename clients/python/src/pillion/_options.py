"""What a connection is made with, and what pillion.run keeps of the program that it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from ._declare import Declaration
from ._dial import Address


class Stoppable(Protocol):
    """A connection, as run() sees it."""

    def stop(self) -> None:
        """End the iteration."""
        ...


class Socket(Protocol):
    """What a connection needs of a websocket, with the exceptions of the websockets package."""

    async def recv(self) -> str | bytes:
        """Give the next message. Raises ConnectionClosed."""
        ...

    async def send(self, message: str | bytes, /) -> None:
        """Send a text or binary message. Raises ConnectionClosed."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close; wait for the other side's answer, but not for ever."""
        ...


Dial = Callable[[], Awaitable[Socket]]
dialling: ContextVar[Dial | None] = ContextVar("pillion_dialling", default=None)
"""How connections that are made in this context get their websocket; None: from the network."""


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that connect() takes."""

    where: Address
    token: str | None
    declaration: Declaration
    window: int
    """Bytes that the sidecar may send ahead on a stream; and on the connection, without ahead."""
    max_frame: int
    name: str
    version: str
    connect_timeout: float | None
    replicas: int | None = None
    advertise: str = ""
    dial: Dial | None = field(default_factory=dialling.get)
    """Takes the place of the network in tests. Raises ConnectError like it."""
    ahead: int = 0
    """Bytes that it may send ahead on the connection; 0: as on a stream."""


@dataclass(slots=True)
class Running:
    """What pillion.run keeps of the program that it runs."""

    connect_timeout: float | None
    connections: set[Stoppable] = field(default_factory=set[Stoppable])


running: ContextVar[Running | None] = ContextVar("pillion_running", default=None)
