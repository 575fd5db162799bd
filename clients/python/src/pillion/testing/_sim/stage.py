"""Where the worker under test runs, and how it reaches the sidecar: what both kinds share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from .fault import Fault
from .session import Session
from .sidecar import Link


class Knock:
    """A worker at the door. The player lets it in, or sends it away with a status."""

    def __init__(self, link: Link, fault: Fault | None = None) -> None:
        self.link = link
        self.fault = fault
        """What is wrong with its handshake."""
        self.session: Session | None = None
        self.code = ""
        self.answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def admit(self, session: Session) -> None:
        """Let it in."""
        self.session = session
        self.answered.set_result(0)

    def refuse(self, status: int, code: str) -> None:
        """Send it away."""
        self.code = code
        if not self.answered.done():
            self.answered.set_result(status)


class Stage(Protocol):
    """A place for one worker at a time."""

    work: Path
    """The directory of the case."""
    knocking: Knock | None
    """Who waits for an answer."""

    async def start(self, job: str) -> None:
        """Start the worker."""
        ...

    def signal(self, name: str) -> None:
        """Send TERM, INT or KILL."""
        ...

    def output(self) -> str:
        """The end of what the worker printed."""
        ...

    async def close(self) -> None:
        """End everything, whatever state it is in."""
        ...


def knocked(stage: Stage, knock: Knock) -> None:
    """Take the event. Raises Fault for a second one at the same time."""
    if stage.knocking is not None:
        raise Fault("one connection at a time", "a second handshake while the first waits")
    stage.knocking = knock
