"""The machinery of TestDriver: a worker's runtime, a simulated sidecar, a clock that stands still.

Flow: drive() is the sidecar's part: it assigns tasks, restores them, and sends what is new in the
logs. settle() lets the worker go on until there is nothing left to do for anybody. It waits for
the event loop, never for time, unless a handler does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from .. import _messages as m
from .._connection import Connection
from .._tasks import Task
from ..errors import UsageError
from ..stores import MemoryStore, Stores
from ..worker import Worker
from ..worker._runtime import Runtime
from ._pipe import PipeEnd, pipe
from ._sim import moves
from ._sim.clock import ManualClock
from ._sim.epoch import Epoch
from ._sim.kafka import Kafka, Stored
from ._sim.memory import PipeLink, read_pipe
from ._sim.partitioner import partition_of
from ._sim.session import Session
from ._sim.sidecar import Settings, Sidecar

INTERVAL = 1e-6  # seconds of the clock, from the end of a unit to its commit
TURNS = 100  # turns of the event loop without news before it is waited for something outside
LOOK = 0.005  # seconds between two looks, then
BEGIN_MS = 1_700_000_000_000  # when the clock begins, for timestamps


class FreshStores:
    """Memory that is empty whenever a task comes: every table is restored from its topic."""

    def open(self, task: Task, table: str) -> MemoryStore:
        """See Stores."""
        del task, table
        return MemoryStore()


class Engine:
    """Everything of a TestDriver that runs in the event loop."""

    def __init__(self, app: Worker, partitions: int, stores: Stores | None, timeout: float) -> None:
        self.clock = ManualClock()
        self.sidecar = Sidecar(Settings(partitions=partitions))
        self.topology = app.topology()
        self._app = app
        self._partitions = partitions
        self._stores = stores
        self._timeout = timeout
        self._runtime: Runtime | None = None
        self._run: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Task[None]] = set()
        self._greeted: Session | None = None
        self._told: set[Epoch] = set()  # that their tables are whole
        self._routed = 0
        self.roles: dict[str, m.Role] = {}
        """What each task is to be."""
        declaration = self.topology.declaration
        for partition in range(partitions):
            for table in declaration.globals:
                self.roles[f"{table.name}/{partition}"] = "global"
            for each in declaration.sets:
                self.roles[f"{each.name}/{partition}"] = "active"

    @property
    def kafka(self) -> Kafka:
        """What there is in Kafka."""
        return self.sidecar.kafka

    @property
    def now_ms(self) -> int:
        """The time, in ms since 1970."""
        return BEGIN_MS + int(self.clock.now() * 1000)

    # -- the worker's life ----------------------------------------------------------------------

    async def start(self) -> None:
        """Start the worker and settle."""
        options = replace(self._app.options(None), dial=self._dial)
        self._runtime = self._app.runtime(
            connect=lambda: Connection(options),
            stores=FreshStores() if self._stores is None else self._stores,
            clock=self.clock,
            commit_interval=INTERVAL,
        )
        self._run = asyncio.create_task(self._runtime.run(), name="worker")
        await self.settle()

    async def stop(self) -> None:
        """Let the worker end as SIGTERM does. Raises what it ends with."""
        run, clock = self._run, asyncio.get_running_loop()
        if self._runtime is None or run is None:
            return
        failed = run.done()  # and whoever waited was told
        self._runtime.stop(self._timeout)
        end = clock.time() + self._timeout
        while not run.done() and clock.time() < end:
            self._handle()
            await self.sidecar.change(LOOK)
        await self.kill()
        if not failed:
            run.result()

    async def kill(self) -> None:
        """End the worker as a crash does: nothing more of it arrives."""
        if self._run is None:
            return
        if self.sidecar.session is not None:
            self.sidecar.session.finish(0)
            self.sidecar.session.link.cut()
        for task in (self._run, *self._readers):
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
        self.sidecar.session = self._runtime = self._run = self._greeted = None
        self._readers.clear()
        self._told.clear()
        self.sidecar.handle()

    async def _dial(self) -> PipeEnd:
        ours, theirs = pipe()
        session = self.sidecar.session = Session(self.sidecar, PipeLink(ours))
        self._readers.add(asyncio.create_task(read_pipe(ours, session)))
        return theirs

    # -- until there is nothing to do -----------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Move the clock, and make every call that is due on the way."""
        end = self.clock.now() + seconds
        while self.clock.move(end):
            await self.settle()

    async def settle(self) -> None:
        """Let everything happen that can. Raises what ends the worker."""
        loop = asyncio.get_running_loop()
        end, turns = loop.time() + self._timeout, 0
        while True:
            if self._handle():
                end, turns = loop.time() + self._timeout, 0
            turns += 1
            if self._run is not None and self._run.done():
                self._run.result()
                return  # stopped by the app itself
            if self._quiet():
                return
            if turns < TURNS:
                await asyncio.sleep(0)
            else:
                await self.sidecar.change(LOOK)
            if loop.time() > end:
                left = "; ".join(self._standing()) or "a call by time does not end"
                raise AssertionError(f"nothing of the app within {self._timeout:g} s: {left}")

    def _handle(self) -> bool:
        """Take what the worker has said, and do the sidecar's part. Says whether there was any."""
        news = not self.sidecar.quiet
        self.sidecar.handle()
        self._route()
        self._drive()
        runtime = self._runtime
        if self.sidecar.quiet and runtime is not None and runtime.resting and not runtime.clean:
            self.clock.move(self.clock.now() + 2 * INTERVAL)
        return news

    def check(self) -> None:
        """Raises UsageError when the worker has ended."""
        if self._run is None or self._run.done():
            why = self._runtime.failure if self._runtime else None
            raise UsageError("the worker has ended; restart() starts it again") from why

    def _quiet(self) -> bool:
        runtime, session = self._runtime, self.sidecar.session
        if runtime is None or session is None or session.hello is None or not self.sidecar.quiet:
            return False
        return (
            runtime.resting
            and runtime.clean
            and session.credited
            and not any(True for _ in self._standing())
        )

    def _standing(self) -> Iterator[str]:
        """Say which tasks have something left to do."""
        session = self.sidecar.session
        if session is None or session.hello is None:
            yield "it has not connected"
            return
        for task, role in self.roles.items():
            epoch = session.tasks.get(task)
            wanted = "restoring" if role == "standby" else "running"
            if epoch is None or epoch.role != role or epoch.state != wanted or epoch.queue:
                yield f"task {task} is {epoch.state if epoch else 'not assigned'}"
                continue
            for stream in epoch.tables.values():
                if stream.kind != "changelog" or role == "standby":
                    end = self.kafka.logs[stream.topic, epoch.partition].end
                    if stream.position < end:
                        yield f"task {task} has not read {stream.topic}"
            for topic in epoch.sources:
                at = (topic, epoch.partition)
                if self.kafka.positions[at] < self.kafka.logs[at].end:
                    yield (
                        f"task {task} has committed {topic} up to {self.kafka.positions[at]} of "
                        f"{self.kafka.logs[at].end}"
                    )

    # -- the sidecar's part ---------------------------------------------------------------------

    def append(self, topic: str, partition: int, record: Stored) -> Stored:
        """Put a record into a topic."""
        log = self.kafka.logs[topic, partition]
        stamp = self.now_ms if record.timestamp is None else record.timestamp
        placed = replace(record, timestamp=stamp, offset=log.end)
        log.append([placed])
        return placed

    def epochs(self, partition: int) -> list[Epoch]:
        """The tasks of a partition, without those of global tables. Raises UsageError."""
        self.check_partition(partition)
        session = self.sidecar.session
        found = session.tasks.values() if session is not None else ()
        return [
            epoch
            for epoch in found
            if epoch.partition == partition and epoch.role != "global" and epoch.living
        ]

    def check_partition(self, partition: int) -> None:
        """Raises UsageError when topics do not have it."""
        if not 0 <= partition < self._partitions:
            raise UsageError(f"there is no partition {partition}; there are {self._partitions}")

    def _drive(self) -> None:
        session = self.sidecar.session
        if session is None or session.ended or session.hello is None:
            return
        if self._greeted is not session:
            self._greeted = session
            session.greet()
        for task, role in self.roles.items():
            epoch = session.tasks.get(task)
            if epoch is None or not epoch.living:
                moves.assign(session, task, role)
            elif epoch.state == "failed":
                moves.lose(session, epoch, "commit_failed")
            elif epoch.role != role:
                self._change(session, epoch)
            else:
                self._serve(session, epoch)

    def _change(self, session: Session, epoch: Epoch) -> None:
        """Make an active a standby, or the other way round."""
        if epoch.queue:
            return
        if epoch.role == "active" and epoch.state == "running":
            moves.demote(session, epoch)
        elif epoch.role == "standby" and epoch.state == "restoring":
            for stream in epoch.tables.values():
                moves.restore(session, stream)
            moves.promote(session, epoch)

    def _serve(self, session: Session, epoch: Epoch) -> None:
        """Send an epoch what it has not had yet."""
        if epoch.resets or epoch.queue or epoch.state not in ("restoring", "running"):
            return
        whole = epoch.state == "running"
        for stream in epoch.tables.values():
            if not whole or stream.kind != "changelog":
                moves.restore(session, stream)
        if not whole and epoch.role != "standby" and epoch not in self._told:
            self._told.add(epoch)
            moves.restored(session, epoch)
        if whole and self._globals_run(session):
            for source in epoch.sources.values():
                if source.position < self.kafka.logs[source.topic, epoch.partition].end:
                    moves.deliver(session, source)

    def _globals_run(self, session: Session) -> bool:
        return all(session.tasks[task].ran for task, role in self.roles.items() if role == "global")

    def _route(self) -> None:
        """Put what was written to topics that this app reads where it reads it."""
        outputs = self.kafka.outputs
        while self._routed < len(outputs):
            written = outputs[self._routed]
            partition = partition_of(written.record.key, self._partitions)
            placed = self.append(written.topic, partition, written.record)
            outputs[self._routed] = written._replace(record=placed, partition=partition)
            self._routed += 1

    def clear(self) -> None:
        """Forget what was written to outputs."""
        self.kafka.outputs.clear()
        self._routed = 0

    def changelog(self, table: str, named: str) -> str:
        """The topic of a table."""
        group = self.topology.declaration.group or self.sidecar.settings.group
        return named or f"{group}-{table}-changelog"
