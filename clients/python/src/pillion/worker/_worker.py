"""Worker: what a user writes an app with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from .._connect import DEFAULT_MAX_FRAME, DEFAULT_WINDOW, version_of_client
from .._connection import Connection
from .._dial import address
from .._locate import Located
from .._options import Options
from ..errors import UsageError
from ..events import Event
from ..stores import SqliteStores, Stores
from ._checks import check_number, check_policy
from ._clock import Clock, LoopClock
from ._declarations import Declarations
from ._declared import AnyTable, SourceTable, Table
from ._policy import DeadLetter, OnError, Stop
from ._program import run_program
from ._progress import Progress
from ._rows import encode_key
from ._runtime import STOP_TIMEOUT, Runtime
from ._topology import Settings, Topology, check_output, topology

K = TypeVar("K")
V = TypeVar("V")
CONNECT_TIMEOUT = 3.0  # seconds, of run()


class Worker(Declarations):
    """A stateful stream processor: topics, tables, and functions that handle records.

    Declare everything, then run(). group is the consumer group, unless the sidecar's group_id
    overrules it. Tables live in SQLite files below state_dir; stores puts them elsewhere
    (MemoryStores(), RocksStores(directory), your own). Each group needs a directory of its own.

    What handlers have done is committed every commit_interval seconds (0: after each batch).
    on_error says what happens to a record that cannot be processed: Stop(), Skip(),
    DeadLetter(output), or a function of a Failure that returns one of them.

    replicas is how many standby copies each task shall have, unless the sidecar's
    num_standby_replicas overrules it; advertise is the address that others get from locate().
    url (``ws://host:port`` or ``unix:/path``) and token are PILLION_URL's and
    PILLION_TOKEN_FILE's when they are not given. The sidecar sends at most window bytes ahead for
    each task's topic, and 16 times as many in all; max_frame is the largest record, in bytes.
    connect_timeout is how many seconds a first connection may take: in run() 3, in running() any.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        state_dir: str | Path = "state",
        stores: Stores | None = None,
        commit_interval: float = 0.1,
        on_error: OnError | None = None,
        replicas: int | None = None,
        advertise: str = "",
        name: str = "pillion-python",
        window: int = DEFAULT_WINDOW,
        max_frame: int = DEFAULT_MAX_FRAME,
        connect_timeout: float | None = None,
    ) -> None:
        check_number("commit_interval", commit_interval, 0)
        if replicas is not None:
            check_number("replicas", replicas, 0, whole=True)
        check_policy("the app", on_error)
        super().__init__(group)
        self._url = url
        self._token = token
        self._stores = stores
        self._state_dir = state_dir
        self._commit_interval = commit_interval
        self._on_error: OnError = Stop() if on_error is None else on_error
        self._replicas = replicas
        self._advertise = advertise
        self._name = name
        self._window = window
        self._max_frame = max_frame
        self._connect_timeout = connect_timeout
        self._watchers: list[Callable[[Event], None]] = []
        self._runtime: Runtime | None = None

    def watch(self, function: Callable[[Event], None]) -> Callable[[Event], None]:
        """Call a function with each event of the connection (pillion.client: Assigned, Lost, …).

        For measuring and logging: it is called before the event is acted on, and must not raise.
        """
        self._watchers.append(function)
        return function

    # -- its life -------------------------------------------------------------------------------

    def topology(self) -> Topology:
        """Add up what was declared. Raises UsageError, in one sentence, for a mistake in it."""
        if isinstance(self._on_error, DeadLetter):
            check_output(self._declared, self._on_error, "the app")
        return topology(self._declared)

    def run(self) -> None:
        """Run the app until a signal, stop(), a drained sidecar or an error; see the exit codes.

        Logs to stderr when the program has set up no logging. Exit codes: 0 a good end, 1 a handler
        has failed, 2 an error that needs a human, 3 one that another start may cure.
        """

        async def main() -> None:
            progress = Progress()
            try:
                timeout = self._connect_timeout
                timeout = CONNECT_TIMEOUT if timeout is None else timeout
                await self._start(timeout, progress).run()
            finally:
                progress.close()

        if loop_runs():
            raise UsageError(
                "an event loop runs here already; use async with app.running(), not app.run()"
            )

        def stop() -> bool:
            self.stop()
            return self._runtime is not None

        run_program(main, stop)

    @asynccontextmanager
    async def running(
        self, *, on_failure: Callable[[BaseException], None] | None = None
    ) -> AsyncGenerator[Worker]:
        """Run the app beside other things: ``async with app.running(): ...``.

        Leaving the block stops it. When the app fails, the block is cancelled and the error raised
        from it, like a TaskGroup's; with on_failure that is called instead, and the error is raised
        at the block's end. Signals and logging are the program's.
        """
        progress = Progress()
        runtime = self._start(self._connect_timeout, progress)
        body = asyncio.current_task()
        assert body is not None
        work = asyncio.create_task(runtime.run(), name="pillion worker")
        inside = True

        def ended(done: asyncio.Task[None]) -> None:
            if not inside or done.cancelled() or (error := done.exception()) is None:
                return
            if on_failure is not None:
                on_failure(error)
            else:
                body.cancel()

        work.add_done_callback(ended)
        try:
            yield self
        except (asyncio.CancelledError, Exception):
            if on_failure is not None or runtime.failure is None:
                raise
            # What fails in the block because the app has failed is not what there is to say.
            if body.uncancel():
                raise  # cancelled by others, too
        finally:
            inside = False
            runtime.stop()
            await asyncio.wait([work])
            progress.close()
        await work

    async def ready(self) -> None:
        """Wait until the tables of all tasks that this worker has are whole.

        Raises what the app has failed with, and UsageError when it does not run (any more).
        """
        await self._running().ready()

    @property
    def is_ready(self) -> bool:
        """Whether ready() would return at once: for a probe."""
        return self._runtime is not None and self._runtime.is_ready

    async def ended(self) -> None:
        """Wait until the app has ended: by stop(), with a drained sidecar, or because it failed."""
        await self._running().ended()

    def stop(self, timeout: float = STOP_TIMEOUT) -> Awaitable[None]:
        """Finish what handlers have in hand, commit, end: within timeout seconds.

        May be called anywhere, also in a handler, and again. Await it to wait for the end; in a
        handler that returns at once.
        """
        runtime = self._runtime
        if runtime is not None:
            runtime.stop(timeout)
        return _Stopped(runtime)

    def local(self, table: AnyTable[K, V]) -> Mapping[K, V]:
        """The committed rows of a table that this worker has, its standby copies included.

        A read raises UsageError when the app does not run (any more), SerdeError for a row that
        does not decode.
        """
        return self._running().local(table)

    async def locate(
        self,
        table: Table[K, V] | SourceTable[K, V],
        key: K | None = None,
        *,
        partition: int | None = None,
    ) -> Located:
        """Find the members of the group that hold a key: the active, the standbys, and whether
        it is here: then app.local(table) has the newest row that is committed.

        The key's partition is the one that Kafka's Java client gives to its bytes in the table.
        Where the topic's records went by other bytes, or by another partitioner, name the
        partition instead. Raises LocateError, and ConnectionLost while the sidecar is away; a
        retriable one is worth another attempt. Raises UsageError when the app does not run.
        """
        raw = None if key is None else encode_key(table.name, table.key, key)
        runtime = self._running()
        found = await runtime.tables.conn.locate(table.name, raw, partition=partition)
        return replace(found, here=runtime.holds(found.task))

    # -- inside ---------------------------------------------------------------------------------

    def runtime(
        self,
        *,
        connect: Callable[[], Connection],
        stores: Stores,
        clock: Clock,
        commit_interval: float,
        progress: Progress | None = None,
    ) -> Runtime:
        """Make a run of the app: of this program, or of a test."""
        if self._runtime is not None and not self._runtime.over:
            raise UsageError("the worker runs already")
        self._started = True
        made = self._runtime = Runtime(
            self.topology(),
            Settings(commit_interval, self._on_error, tuple(self._declared.outputs)),
            connect=connect,
            stores=stores,
            clock=clock,
            watch=[*([progress.watch] if progress else ()), *self._watchers],
        )
        return made

    def options(self, connect_timeout: float | None) -> Options:
        """What a connection of the app is made with."""
        return Options(
            where=address(self._url),
            token=self._token,
            declaration=self.topology().declaration,
            window=self._window,
            max_frame=self._max_frame,
            name=self._name,
            version=version_of_client(),
            connect_timeout=connect_timeout,
            replicas=self._replicas,
            advertise=self._advertise,
            ahead=16 * self._window,
        )

    def _start(self, connect_timeout: float | None, progress: Progress) -> Runtime:
        options = self.options(connect_timeout)
        return self.runtime(
            connect=lambda: Connection(options),
            stores=self._sqlite() if self._stores is None else self._stores,
            clock=LoopClock(),
            commit_interval=self._commit_interval,
            progress=progress,
        )

    def _sqlite(self) -> SqliteStores:
        try:
            Path(self._state_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"the state_dir {self._state_dir} cannot be made: {error.strerror}; choose another "
                "one, or give stores="
            ) from error
        return SqliteStores(self._state_dir)

    def _running(self) -> Runtime:
        if self._runtime is None:
            raise UsageError("the worker does not run; use it inside async with app.running()")
        return self._runtime


def loop_runs() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Stopped:
    """What stop() returns: awaiting it waits for the end, but not for the one who asks."""

    def __init__(self, runtime: Runtime | None) -> None:
        self._runtime = runtime

    def __await__(self) -> Generator[Any, None, None]:
        if self._runtime is not None and not self._runtime.working:
            yield from self._runtime.ended().__await__()
