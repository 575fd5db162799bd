"""What a connection is made with, and what pillion.run keeps of the program that it runs."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that connect() takes."""

    where: Address
    token: str | None
    declaration: Declaration
    window: int
    max_frame: int
    name: str
    version: str
    connect_timeout: float | None
    replicas: int | None = None
    advertise: str = ""


@dataclass(slots=True)
class Running:
    """What pillion.run keeps of the program that it runs."""

    connect_timeout: float | None
    connections: set[Stoppable] = field(default_factory=set[Stoppable])


running: ContextVar[Running | None] = ContextVar("pillion_running", default=None)
