"""A worker in the player's own event loop, connected through a pipe: no process and no socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from pathlib import Path
from typing import Any, NamedTuple

from websockets.exceptions import ConnectionClosed

from ..._options import Running, dialling, running
from ...errors import Drained, PillionError
from .._pipe import PipeEnd, pipe
from .fault import Fault
from .session import Session
from .sidecar import Manner, Sidecar
from .stage import Knock, knocked


class Main(NamedTuple):
    """A worker's main. stop is what SIGTERM does; None: it stops the connections."""

    run: Coroutine[Any, Any, object]
    stop: Callable[[], object] | None = None


Program = Callable[[str, Path], Main]
"""Makes a main of a job and a directory, in the context that the main will run in."""


class PipeLink:
    """A pipe as a link."""

    def __init__(self, end: PipeEnd) -> None:
        self.end = end
        self._tasks: set[asyncio.Task[None]] = set()
        self._glued: list[str | bytes] | None = None

    def post(self, data: str | bytes) -> None:
        """Send a message, or keep it while messages are glued."""
        if self._glued is not None:
            self._glued.append(data)
            return
        with contextlib.suppress(ConnectionClosed):  # its end is an event
            self.end.post(data)

    def close(self, code: int, reason: str) -> None:
        """Close."""
        self._tasks.add(asyncio.create_task(self.end.close(code, reason)))

    def cut(self) -> None:
        """End without a code."""
        self.end.cut()

    def change(self, manner: Manner) -> None:
        """Keep messages, or let those out that were kept. A pipe has no pieces."""
        if manner not in (Manner(), Manner(glue=True)):
            raise ValueError("a pipe has no pieces")
        kept, self._glued = self._glued or [], [] if manner.glue else None
        for data in kept:
            self.end.post(data)

    def ping(self, size: int) -> None:
        """A pipe has none."""
        raise ValueError(f"a pipe has no ping of {size} bytes")


class TaskWorker:
    """A worker that is a task. Its exit codes are those of pillion.client.run()."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.error: BaseException | None = None

    def ended(self) -> str:
        """Say how it has ended."""
        why = f": {self.error!r}" if self.error else ""
        return f"the worker ended with exit code {self.code}{why}"


class MemoryStage:
    """A place for one worker at a time."""

    def __init__(self, sidecar: Sidecar, program: Program, work: Path) -> None:
        self.work = work
        self.knocking: Knock | None = None
        self._sidecar = sidecar
        self._program = program
        self._state = Running(None)
        self._stop: Callable[[], object] = self._stop_connections
        self._task: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Task[None]] = set()

    async def start(self, job: str) -> None:
        """Start the worker, whose connections are pipes."""
        worker = self._sidecar.worker = TaskWorker()
        self._state = Running(None)
        context = copy_context()
        context.run(dialling.set, self._dial)
        context.run(running.set, self._state)
        main = context.run(self._program, job, self.work)
        self._stop = main.stop or self._stop_connections
        run = self._run(worker, main.run)
        self._task = asyncio.get_running_loop().create_task(run, context=context)

    def signal(self, name: str) -> None:
        """Let the worker end as TERM does. It cannot be killed: its stores would be closed."""
        if name == "KILL":
            raise ValueError("a worker in memory cannot be killed")
        self._stop()

    def output(self) -> str:
        """Nothing is caught: the test's own output has it."""
        worker = self._sidecar.worker
        return repr(worker.error) if isinstance(worker, TaskWorker) else ""

    async def close(self) -> None:
        """End the worker."""
        for task in filter(None, (self._task, *self._readers)):
            task.cancel()
            await asyncio.wait([task])

    def _stop_connections(self) -> None:
        for connection in self._state.connections:
            connection.stop()

    async def _run(self, worker: TaskWorker, main: Coroutine[Any, Any, object]) -> None:
        code = 0
        try:
            await main
        except Drained:
            pass
        except PillionError as error:
            worker.error, code = error, 3 if error.retriable else 2
        except Exception as error:
            worker.error, code = error, 1

        def over() -> None:
            worker.code = code

        self._sidecar.post(over)

    async def _dial(self) -> PipeEnd:
        ours, theirs = pipe()
        knock = Knock(PipeLink(ours))
        self._sidecar.post(lambda: knocked(self, knock))
        if await knock.answered:
            raise Fault("a real socket for this case", "a pipe, which has no handshake to refuse")
        assert knock.session is not None
        self._readers.add(asyncio.create_task(read_pipe(ours, knock.session)))
        return theirs


async def read_pipe(end: PipeEnd, session: Session) -> None:
    """Post what arrives, to the end."""
    post = session.sidecar.post
    try:
        while True:
            data = await end.recv()
            post(lambda data=data: session.receive(data))
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 0
        post(lambda: session.finish(code))
