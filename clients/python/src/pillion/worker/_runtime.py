"""The runtime: events of the connection to the runners of tasks, until stop or the end.

Flow: one loop takes events. Records go to their task's runner, one batch at a time; while a runner
is busy, what would change its tables waits in the queue (and with it the sidecar, by credit), but
for Revoking and Lost. Stores are the client's Tables' to keep.

INVARIANT: while a handler runs, nothing but itself changes the tables of its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import events as ev
from .._codes import Code
from .._connection import Connection
from .._notice import logger
from .._tables import Tables, TableView
from .._tasks import Task
from ..errors import ConnectionLost, StoreError, UsageError
from ..stores import Stores
from ._clock import Clock
from ._declared import AnyTable, GlobalTable
from ._rows import ReadRows, Source, StoreRows
from ._runner import Runner
from ._topology import Settings, Topology
from ._work import Work

STOP_TIMEOUT = 10.0  # seconds that handlers have to finish what they have in hand


@dataclass(slots=True)
class _Running:
    runner: Runner
    loop: asyncio.Task[None]
    revoking: bool = False


class Runtime:
    """One run of an app. run() ends after stop() or when the sidecar has drained, or raises."""

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        *,
        connect: Callable[[], Connection],
        stores: Stores,
        clock: Clock,
        watch: Sequence[Callable[[ev.Event], None]] = (),
    ) -> None:
        self._topology = topology
        self._settings = settings
        self._connect = connect
        self._stores = stores
        self._clock = clock
        self._watch = watch
        self._tables: Tables | None = None
        self._running: dict[str, _Running] = {}
        self._loops: dict[str, asyncio.Task[None]] = {}  # the latest of each task, ended or not
        self._alive: set[asyncio.Task[None]] = set()  # also of epochs that are over
        self._opening: set[str] = set()  # tasks that are not whole yet
        self._known: dict[str, Task] = {}
        self._global_views: dict[str, list[TableView]] = {}  # as of the last event but records
        self._gaps: set[str] = set()  # global tasks that are not whole, or lost and not back
        self._settled = False  # the sidecar waits for nothing
        self._stopping = asyncio.Event()
        self._timeout: float | None = None
        self._failed: BaseException | None = None  # why the first runner has failed
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self.failure: BaseException | None = None
        """What run() has raised."""

    async def run(self) -> None:
        """Connect and work. Raises what ends the program: HandlerFailed, a ConnectionFatal, …"""
        conn = self._connect()
        try:
            if await self._enter(conn):
                await self._work(conn)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            try:
                await conn.__aexit__(None, None, None)
            finally:
                self._ended.set()
                self._ready.set()

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Finish the units in hand, commit, end: within so many seconds. Idempotent."""
        if self._timeout is None:
            self._timeout = timeout
        self._stopping.set()
        for each in self._running.values():
            each.runner.end()

    async def ended(self) -> None:
        """Wait for the end of run()."""
        await self._ended.wait()

    async def ready(self) -> None:
        """Wait until every task of this worker is whole. Raises what run() has raised."""
        await self._ready.wait()
        if self.failure is not None:
            raise self.failure
        if self.over:
            raise UsageError("the worker has ended")

    @property
    def is_ready(self) -> bool:
        """Whether every task of this worker is whole, and it runs."""
        return self._ready.is_set() and not self.over

    def holds(self, name: str) -> bool:
        """Whether a task is this worker's to process, and its tables are whole."""
        found = self._running.get(name)
        if found is None or found.revoking or found.loop.done():
            return False
        task = found.runner.task
        return self.tables.conn.lives(task) and self._whole(task)  # lost may be on its way still

    @property
    def over(self) -> bool:
        """Whether run() has ended."""
        return self._ended.is_set()

    @property
    def working(self) -> bool:
        """Whether the asyncio task that asks is one of the runners."""
        return asyncio.current_task() in self._alive

    @property
    def resting(self) -> bool:
        """Whether no handler has anything in hand, and it is not about to end."""
        return not self._stopping.is_set() and all(
            each.runner.resting for each in self._running.values()
        )

    @property
    def clean(self) -> bool:
        """Whether everything that handlers have done is committed."""
        return all(each.runner.clean for each in self._running.values())

    def local(self, table: AnyTable[Any, Any]) -> ReadRows[Any, Any]:
        """The committed rows of a table that this worker has, of actives and standbys."""
        return ReadRows(table, lambda: self._sources(table))

    @property
    def tables(self) -> Tables:
        """The client's tables. Raises UsageError when the worker does not run."""
        if self._tables is None and self.over:
            raise UsageError("the worker has ended")
        if self._tables is None:
            raise UsageError("no sidecar has answered yet; await app.ready() first")
        return self._tables

    # -- events ---------------------------------------------------------------------------------

    async def _enter(self, conn: Connection) -> bool:
        """Connect; False when stop() came first."""
        enter = asyncio.create_task(conn.__aenter__(), name="pillion connect")
        stop = asyncio.create_task(self._stopping.wait(), name="pillion stop")
        try:
            await asyncio.wait([enter, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (enter, stop):
                task.cancel()
            await asyncio.gather(enter, stop, return_exceptions=True)
        if enter.cancelled():
            return False
        enter.result()
        return True

    async def _work(self, conn: Connection) -> None:
        with Tables(conn, self._stores) as tables:
            self._tables = tables
            try:
                await self._serve(tables)
            finally:
                self._tables = None
                await self._cancel()

    async def _serve(self, tables: Tables) -> None:
        pump = asyncio.create_task(self._pump(tables), name="pillion events")
        stop = asyncio.create_task(self._stopping.wait(), name="pillion stop")
        try:
            await asyncio.wait([pump, stop], return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
            else:
                await self._finish()
        finally:
            for task in (pump, stop):
                task.cancel()
            await asyncio.gather(pump, stop, return_exceptions=True)
        if self._failed is not None:
            raise self._failed

    async def _pump(self, tables: Tables) -> None:
        while True:
            try:
                event = await tables.next(self._busy)
            except StopAsyncIteration:
                return
            for watch in self._watch:
                watch(event)
            self._handle(tables, event)
            self._look()

    def _busy(self, event: ev.Event) -> bool:
        """Whether an event has to wait for a handler that runs."""
        match event:
            case ev.Revoking() | ev.Lost() | ev.Assigned() | ev.Waiting() | ev.Restoring():
                return False
            case ev.Reset(task) if task.role == "global":
                return any(each.runner.busy for each in self._running.values())
            case ev.Records(task) if not self._whole(task):
                return True
            case _:
                found = self._running.get(event.task.name)
                return found is not None and found.runner.busy

    def _handle(self, tables: Tables, event: ev.Event) -> None:
        if not isinstance(event, ev.Records | ev.Restore | ev.Restoring):
            self._global_views.clear()
        match event:
            case ev.Assigned(task):
                logger.info("task %s is assigned (%s)", task.name, task.role)
                self._settled = True  # so the group is, also when all of its tasks go again
                self._known[task.name] = task
                self._opening.discard(task.name)
                if task.role != "standby":
                    self._opening.add(task.name)
                if task.role == "global":
                    self._gaps.add(task.name)
            case ev.Restored(task):
                if tables.conn.whole(task):
                    self._opening.discard(task.name)
                    self._gaps.discard(task.name)
                for each in self._running.values():
                    each.runner.wake()
                if task.role == "active" and tables.conn.lives(task):
                    self._begin(tables, task)
            case ev.Promoted(task, was):
                logger.info("task %s is promoted", task.name)
                self._known[task.name] = task
                self._opening.discard(task.name)
                self._lose(was)
                if tables.conn.lives(task):
                    self._begin(tables, task)
            case ev.Demoted(task, was):
                logger.info("task %s is demoted", task.name)
                self._known[task.name] = task
                self._opening.discard(task.name)
                self._lose(was)
            case ev.Records(task, batch):
                found = self._running.get(task.name)
                if found is not None and found.runner.task is task and not found.loop.done():
                    found.runner.give(batch)
            case ev.Revoking(task):
                logger.info("task %s is revoked", task.name)
                self._revoke(tables, task)
            case ev.Lost(task, code, message):
                logger.info("task %s ends here: %s", task.name, message or code)
                if code == ConnectionLost.code:
                    self._settled = False
                self._forget(task)
                if task.role == "global" and code != ConnectionLost.code:
                    self._gaps.add(task.name)
                self._lose(task)
            case ev.Reset(task) if task.role != "standby":
                self._opening.add(task.name)  # until the next Restored
                if task.role == "global":
                    self._gaps.add(task.name)
            case ev.Waiting(code):
                self._settled = code == Code.OK
            case _:
                pass

    def _begin(self, tables: Tables, task: Task) -> None:
        found = self._running.get(task.name)
        if found is not None and found.runner.task is task:
            return  # whole once more, after a reset
        try:
            views = tables[task]
        except UsageError:
            return  # a store has failed; Lost is on its way
        runner = Runner(
            task,
            self._topology.sets[task.set],
            Work(task, views, self._global_sources),
            tables,
            self._settings,
            self._clock,
            self._changed,
            lambda: self._whole(task),
        )
        logger.info("task %s is whole, and begins at %s", task.name, _positions(task))
        if self._stopping.is_set():
            runner.end()
        before = self._loops.get(task.name)
        loop = asyncio.create_task(runner.run(before), name=f"pillion task {task.name}")
        self._loops[task.name] = loop
        self._alive.add(loop)
        loop.add_done_callback(self._alive.discard)
        self._running[task.name] = made = _Running(runner, loop)
        loop.add_done_callback(lambda _: self._runner_ended(tables, made))

    def _revoke(self, tables: Tables, task: Task) -> None:
        found = self._running.get(task.name)
        if found is None or found.runner.task is not task or found.loop.done():
            self._forget(task)
            tables.release(task)
            return
        found.revoking = True
        found.runner.end()

    def _lose(self, task: Task) -> None:
        found = self._running.get(task.name)
        if found is not None and found.runner.task is task:
            found.runner.lost()
            del self._running[task.name]

    def _forget(self, task: Task) -> None:
        if self._known.get(task.name) is task:
            del self._known[task.name]
            self._opening.discard(task.name)
            self._gaps.discard(task.name)

    def _runner_ended(self, tables: Tables, ended: _Running) -> None:
        runner = ended.runner
        if runner.failure is not None:
            self._failed = self._failed or runner.failure
            self.stop()
            return
        if ended.revoking and self._running.get(runner.task.name) is ended:
            del self._running[runner.task.name]
            self._forget(runner.task)
            if tables.conn.lives(runner.task):
                tables.release(runner.task)
        self._changed()

    def _changed(self) -> None:
        if self._tables is not None:
            self._tables.conn.wake()

    def _whole(self, task: Task) -> bool:
        """Whether nothing is being replayed into what handlers of the task may read."""
        return not self._gaps and task.name not in self._opening

    def _look(self) -> None:
        """Find out whether everything is whole."""
        if not self._opening and (self._known or self._settled):
            self._ready.set()
        else:
            self._ready.clear()

    # -- the end --------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Let the runners finish, for as long as stop() has said."""
        for each in self._running.values():
            each.runner.end()
        if not self._alive:
            return
        _, late = await asyncio.wait(list(self._alive), timeout=self._timeout)
        if late:
            logger.warning(
                "%d handlers did not end within %g s; their records come again",
                len(late),
                self._timeout,
            )

    async def _cancel(self) -> None:
        """Nothing of this run goes on behind it."""
        loops = list(self._alive)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    # -- rows -----------------------------------------------------------------------------------

    def _global_sources(self, table: GlobalTable[Any, Any]) -> Sequence[TableView]:
        found = self._global_views.get(table.name)
        if found is not None:
            return found
        tasks = [t for t in self._known.values() if t.role == "global" and table.name in t.tables]
        views = list(self._views(table.name, tasks))
        if self._gaps or len(views) < len(tasks):
            # Rows that are not there yet would be taken for rows that do not exist.
            raise StoreError(f"global table {table.name!r} is being restored")
        self._global_views[table.name] = views
        return views

    def _sources(self, table: AnyTable[Any, Any]) -> Sequence[Source]:
        _ = self.tables  # refuses when the worker does not run
        return [StoreRows(view.store) for view in self._views(table.name, self._known.values())]

    def _views(self, name: str, tasks: Iterable[Task]) -> Iterator[TableView]:
        for task in tasks:
            if name in task.tables:
                try:
                    yield self.tables[task][name]
                except (UsageError, StoreError):
                    continue  # it is being opened, or has failed


def _positions(task: Task) -> str:
    return ", ".join(f"{each.topic} {each.position}" for each in task.sources.values())
