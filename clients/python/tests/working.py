"""A worker's app at a FakeSidecar, driven step by step, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from pillion import MemoryStores, Stores, Worker
from pillion import _messages as m
from pillion._connection import Connection
from pillion._dial import address
from pillion.testing import FakeCommit, FakeSidecar, FakeTask, FakeWorker
from pillion.testing._fake import LIMITS
from pillion.worker._runtime import Runtime

Pair = tuple[bytes | None, bytes | None]


@dataclass(order=True)
class Call:
    """A call that a ManualClock has not made yet."""

    when: float
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._calls: list[Call] = []
        self._numbers = count()
        self.waiting = asyncio.Event()
        """Somebody waits for a time."""

    def now(self) -> float:
        return self._now

    @property
    def open(self) -> int:
        """How many calls are to be made yet."""
        return sum(call.callback is not None for call in self._calls)

    def call_at(self, when: float, callback: Callable[[], None]) -> Call:
        call = Call(when, next(self._numbers), callback)
        heapq.heappush(self._calls, call)
        self.waiting.set()
        return call

    def move(self, seconds: float) -> None:
        self._now += seconds
        while self._calls and self._calls[0].when <= self._now:
            call = heapq.heappop(self._calls)
            if call.callback is not None:
                call.callback()


class Stage:
    """The app, the other end of its connection, and the clock."""

    def __init__(
        self, app: Worker, sidecar: FakeSidecar, runtime: Runtime, clock: ManualClock
    ) -> None:
        self.app = app
        self.sidecar = sidecar
        self.runtime = runtime
        self.clock = clock
        self.work: asyncio.Task[None] = asyncio.create_task(runtime.run())
        self.worker: FakeWorker

    async def connect(self) -> FakeWorker:
        self.worker = await self.sidecar.accept()
        return self.worker

    async def open(self, name: str, partition: int = 0) -> FakeTask:
        return await self.worker.start(name, partition)

    async def records(self, task: FakeTask, topic: str, *pairs: Pair) -> None:
        await self.worker.records(task, topic, pairs)

    async def commit(self) -> FakeCommit:
        """Wait for a commit, and land it."""
        commit = await self.worker.commit()
        await self.worker.committed(commit)
        return commit


@asynccontextmanager
async def staged(
    app: Worker,
    *,
    commit_interval: float = 0,
    stores: Stores | None = None,
    limits: m.Limits = LIMITS,
) -> AsyncGenerator[Stage]:
    """Run an app; the block ends it if it has not ended."""
    clock = ManualClock()
    async with FakeSidecar(limits=limits) as sidecar:
        options = replace(app.options(None), where=address(sidecar.url))
        runtime = app.runtime(
            connect=lambda: Connection(options),
            stores=stores or MemoryStores(),
            clock=clock,
            commit_interval=commit_interval,
        )
        stage = Stage(app, sidecar, runtime, clock)
        try:
            await stage.connect()
            yield stage
        finally:
            runtime.stop(0.0)
            await asyncio.gather(stage.work, return_exceptions=True)


def pairs(*values: str, key: bytes | None = b"k") -> Sequence[Pair]:
    """Records of one key."""
    return [(key, value.encode()) for value in values]


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until a condition holds; @run's deadline ends it."""
    while not condition():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
