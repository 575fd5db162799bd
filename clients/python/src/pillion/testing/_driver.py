"""TestDriver: an app and its Kafka in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from .._messages import Role
from ..errors import UsageError
from ..serdes import Serde
from ..stores import Stores
from ..worker import GlobalTable, Output, Record, SourceTable, Table, Topic, Worker
from ..worker._declared import AnyTable
from ..worker._worker import loop_runs
from ._engine import Engine
from ._sim import moves
from ._sim.kafka import Headers, Log, Stored
from ._sim.partitioner import partition_of
from ._sim.sidecar import Fate

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class TestDriver:
    """Runs an app without Kafka, sidecar, network or waiting. For any test framework, or none.

        def test_counts() -> None:
            with TestDriver(app) as driver:
                driver.send(lines, "k", "to be or not to be")
                assert driver.table(counts) == {"to": 2, "be": 2, "or": 1, "not": 1}
                driver.restart()                  # as after a crash: restored from the changelog
                driver.send(lines, "k", "be")
                assert driver.table(counts)["be"] == 3
                driver.advance(minutes=5)         # calls what @app.every has declared
                assert driver.outputs(reports) == [("be", 3)]

    What it does is done when a method returns: records are processed and committed, and what they
    made the app read again (outputs that it reads itself, calls by time) as well. A handler's error
    is raised from there as pillion.HandlerFailed, with the error as its __cause__; a mistake of the
    app, like a write to an output that was not declared, as UsageError. After it the worker has
    ended, as in production; restart() starts it again, at that record.

    partitions is how many each topic has. Records go to the partition of their key, like with the
    Java client; those without a key to 0. stores are what the app keeps its tables in; without
    them each assignment begins with empty tables in memory, which are restored from the
    changelogs. timeout is how many real seconds may pass without a word of the app while it has
    something to do; AssertionError says then which task that is.

    Time stands still but in advance(). A task makes one commit of what a method has it do, and one
    for each call by time: commit_interval passes at once, in no time of the driver's clock.

    Where an event loop runs already, as in an async test, the app gets a thread of its own.
    """

    __test__ = False  # this is no test, whatever pytest thinks of its name

    def __init__(
        self,
        app: Worker,
        *,
        partitions: int = 1,
        stores: Stores | None = None,
        timeout: float = 10.0,
    ) -> None:
        if partitions < 1:
            raise UsageError(f"partitions is {partitions}; use 1 or more")
        self._partitions = partitions
        self._engine = Engine(app, partitions, stores, timeout)
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._inside = False

    def __enter__(self) -> TestDriver:
        if self._runner is not None:
            raise UsageError("this driver was used already; make another one")
        self._runner = asyncio.Runner()
        if loop_runs():  # an event loop cannot run in another one
            self._thread = ThreadPoolExecutor(1, "pillion-test-driver")
        try:
            self._wait(self._engine.start)
        except BaseException:
            self._close(self._engine.kill)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(self._engine.stop if error is None else self._engine.kill)

    # -- records in -----------------------------------------------------------------------------

    def send(
        self,
        topic: Topic[K, V],
        key: K | None = None,
        value: V | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """Write a record to a source topic, and have it processed.

        None is a null key or value. timestamp is in milliseconds since 1970; without it it is the
        driver's clock, which begins at 1,700,000,000,000.
        """
        self._source(topic)
        raw_key, data = _encoded(topic.key, key), _encoded(topic.value, value)
        self.send_raw(
            topic, raw_key, data, partition=partition, headers=headers, timestamp=timestamp
        )

    def send_raw(
        self,
        topic: Topic[Any, Any],
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """Write a record as bytes, for what does not decode."""
        self._append(self._source(topic), Stored(key, value, headers, timestamp), partition)
        self._settle()

    def send_many(
        self,
        topic: Topic[K, V],
        pairs: Iterable[tuple[K | None, V | None]],
        *,
        partition: int | None = None,
    ) -> None:
        """Write records in one batch for each partition."""
        name = self._source(topic)
        for key, value in list(pairs):
            record = Stored(_encoded(topic.key, key), _encoded(topic.value, value))
            self._append(name, record, partition)
        self._settle()

    def put(self, table: SourceTable[K, V] | GlobalTable[K, V], key: K, value: V | None) -> None:
        """Write a row of a table whose topic others write; None deletes it."""
        if not isinstance(table, SourceTable | GlobalTable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{_name(table)} is no source or global table; send() records")
        record = Stored(_encoded(table.key, key), _encoded(table.value, value))
        self._append(self._topic_of(table), record, None)
        self._settle()

    # -- what came of it ------------------------------------------------------------------------

    def outputs(self, output: Output[K, V]) -> list[tuple[K | None, V | None]]:
        """Everything that was committed to an output so far: pairs of key and value, in order."""
        return [(each.key, each.value) for each in self.records(output)]

    def records(self, output: Output[K, V]) -> list[Record[K, V]]:
        """The same with offset, timestamp, headers and partition."""
        if output not in self._engine.topology.outputs:
            raise UsageError(f"{_name(output)} is no output of this app")
        made: list[Record[K, V]] = []
        for _, topic, record, partition in self._engine.kafka.outputs:
            if topic == output.name:
                key, value = (
                    _decoded(output.key, record.key),
                    _decoded(output.value, record.value),
                )
                stamp, headers = record.timestamp, record.headers
                made.append(
                    Record(key, value, record.offset, stamp, headers, topic, partition or 0)
                )
        return made

    def clear(self) -> None:
        """Forget what outputs() and records() have shown."""
        self._engine.clear()

    def table(self, table: AnyTable[K, V], *, partition: int | None = None) -> Mapping[K, V]:
        """The committed rows of a table, of all partitions or of one: a copy."""
        rows: dict[K, V] = {}
        for log in self._logs(table, partition):
            for key, value in log.rows().items():
                rows[table.key.decode(key)] = table.value.decode(value)
        return rows

    def changelog(
        self, table: Table[K, V], *, partition: int | None = None
    ) -> list[tuple[K, V | None]]:
        """What was written to a table's changelog, partition by partition; None deletes."""
        return [
            (table.key.decode(record.key), _decoded(table.value, record.value))
            for log in self._logs(table, partition)
            for record in log.records
            if record.key is not None
        ]

    # -- what happens ---------------------------------------------------------------------------

    def advance(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> None:
        """Let time pass: each call of @app.every that is due on the way is made, in its order."""
        total = seconds + 60 * minutes + 3600 * hours
        if total <= 0:
            raise UsageError("advance() takes a time of more than 0: seconds=, minutes= or hours=")
        self._wait(lambda: self._engine.advance(total), running=True)

    def revoke(self, partition: int = 0) -> None:
        """Take the partition's tasks away, as a rebalance does, and give them back.

        The handler in hand is finished and committed; the tables are restored anew. May be called
        in a handler: then it happens meanwhile.
        """
        session = self._engine.sidecar.now
        for epoch in self._engine.epochs(partition):
            if epoch.role == "active":
                moves.revoke(session, epoch)
            else:
                moves.lose(session, epoch, "rebalance")
        self._settle_later()

    def lose(self, partition: int = 0) -> None:
        """End the partition's tasks at once, as a fenced member's are, and give them back.

        What is not committed is dropped, and its records come again. May be called in a handler.
        """
        for epoch in self._engine.epochs(partition):
            moves.lose(self._engine.sidecar.now, epoch)
        self._settle_later()

    def restart(self) -> None:
        """Kill the worker and start it again, also after it has failed or ended.

        Tables in memory are gone and restored from their changelogs; stores that were given to
        the driver stay.
        """

        async def again() -> None:
            await self._engine.kill()
            await self._engine.start()

        self._wait(again)

    def standby(self, partition: int = 0) -> None:
        """Make the partition's tasks copies: their records wait until promote()."""
        self._change(partition, "standby")

    def promote(self, partition: int = 0) -> None:
        """Make copies the actives again. The tables stay as they are: nothing is replayed."""
        self._change(partition, "active")

    def abort_next_commit(self) -> None:
        """Have the next commit fail: nothing of it is kept, and its records come again."""
        self._engine.sidecar.fates.append(Fate("aborted", "commit_failed", lands=False))

    def unknown_next_commit(self, landed: bool) -> None:
        """Have the worker not be told how the next commit ended.

        landed says whether Kafka has it. The tables are restored anew; if it has not landed, its
        records come again.
        """
        self._engine.sidecar.fates.append(Fate("unknown", "kafka_unreachable", landed))

    # -- inside ---------------------------------------------------------------------------------

    def _change(self, partition: int, role: Role) -> None:
        for epoch in self._engine.epochs(partition):
            self._engine.roles[epoch.task] = role
        self._settle()

    def _source(self, topic: Topic[Any, Any]) -> str:
        plans = self._engine.topology.sets.values()
        if not any(each.topic is topic for plan in plans for each in plan.handlers.values()):
            raise UsageError(
                f"{_name(topic)} is no source topic of this app; give what app.topic() made"
            )
        return topic.name

    def _append(self, topic: str, record: Stored, partition: int | None) -> None:
        self._usable()
        self._engine.check()
        if partition is None:
            partition = partition_of(record.key, self._partitions)
        self._engine.check_partition(partition)
        self._engine.append(topic, partition, record)

    def _logs(self, table: AnyTable[Any, Any], partition: int | None) -> list[Log]:
        topic = self._topic_of(table)
        if partition is not None:
            self._engine.check_partition(partition)
        each = range(self._partitions) if partition is None else [partition]
        return [self._engine.kafka.logs[topic, at] for at in each]

    def _topic_of(self, table: AnyTable[Any, Any]) -> str:
        made = self._engine.topology
        kept = [each for plan in made.sets.values() for each in plan.tables]
        if table not in (*made.globals, *kept):
            raise UsageError(f"{_name(table)} is no table of this app")
        if isinstance(table, Table):
            return self._engine.changelog(table.name, table.changelog)
        return table.topic

    def _settle(self) -> None:
        self._wait(self._engine.settle, running=True)

    def _settle_later(self) -> None:
        """Settle; inside of a handler whoever has called it does."""
        if not self._inside:
            self._settle()

    def _usable(self) -> asyncio.Runner:
        if self._runner is None:
            raise UsageError("use the driver in a with block")
        if self._inside:
            raise UsageError("a handler cannot drive its own test; do it from outside")
        return self._runner

    def _wait(self, what: Callable[[], Coroutine[Any, Any, T]], *, running: bool = False) -> T:
        """Let the event loop run until something is done."""
        runner = self._usable()
        if running:
            self._engine.check()
        self._inside = True
        try:
            if self._thread is not None:
                return self._thread.submit(lambda: runner.run(what())).result()
            if loop_runs():
                raise UsageError(
                    "an event loop runs in this thread, but did not when the driver was entered; "
                    "enter and use it in the same place"
                )
            return runner.run(what())
        finally:
            self._inside = False

    def _close(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        runner, thread = self._runner, self._thread
        assert runner is not None
        try:
            self._wait(how)
        finally:
            if thread is not None:
                thread.submit(runner.close).result()
                thread.shutdown()
            else:
                runner.close()


def _encoded(serde: Serde[T], value: T | None) -> bytes | None:
    return None if value is None else serde.encode(value)


def _decoded(serde: Serde[T], data: bytes | None) -> T | None:
    return None if data is None else serde.decode(data)


def _name(what: object) -> str:
    name = getattr(what, "name", None)
    return f"{type(what).__name__} {name!r}" if isinstance(name, str) else repr(what)
