"""TestDriver: each of its methods, with apps as users write them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pillion import (
    Batch,
    Context,
    HandlerFailed,
    Output,
    Record,
    SqliteStores,
    Table,
    Topic,
    UsageError,
    Worker,
)
from pillion.testing import TestDriver


@dataclass
class Words:
    """An app that counts words, and what a test needs of it."""

    app: Worker
    lines: Topic[str, str]
    counts: Table[str, int]
    changes: Output[str, int]
    seen: list[list[str | None]] = field(default_factory=list[list[str | None]])
    """The values of each batch."""


def words(before: Callable[[str], None] = lambda line: None) -> Words:
    app = Worker("words")
    made = Words(
        app,
        app.topic("lines", key=str, value=str),
        app.table("counts", key=str, value=int, default=int),
        app.output("changes", key=str, value=int),
    )

    @app.process(made.lines, tables=[made.counts])
    def count(batch: Batch[str, str], ctx: Context) -> None:
        made.seen.append(batch.values)
        for line in batch.values:
            before(line or "")
            for word in (line or "").split():
                ctx[made.counts][word] += 1
                ctx.send(made.changes, key=word, value=ctx[made.counts][word])

    return made


def test_what_was_sent_is_processed_and_committed() -> None:
    w = words()
    with TestDriver(w.app) as driver:
        driver.send(w.lines, "k", "to be or not to be")
        assert driver.table(w.counts) == {"to": 2, "be": 2, "or": 1, "not": 1}
        assert driver.outputs(w.changes) == [
            ("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2),
        ]  # fmt: skip
        driver.send(w.lines, "k", "be")
        assert driver.outputs(w.changes)[-1] == ("be", 3)
        driver.clear()
        assert driver.outputs(w.changes) == []
        driver.send(w.lines, value="be")
        assert driver.outputs(w.changes) == [("be", 4)]


def test_a_changelog_has_one_write_for_each_key_and_commit() -> None:
    w = words()
    with TestDriver(w.app) as driver:
        driver.send_many(w.lines, [("k", "a a"), (None, None), ("k", "b a")])
        assert w.seen == [["a a", None, "b a"]]
        assert driver.changelog(w.counts) == [("a", 3), ("b", 1)]
        driver.send(w.lines, "k", "a")
        assert driver.changelog(w.counts) == [("a", 3), ("b", 1), ("a", 4)]


def test_records_go_to_the_partition_of_their_key() -> None:
    w = words()
    with TestDriver(w.app, partitions=3) as driver:
        for key in ("21", "foobar", "abc"):  # -973932308, -790332482, 479470107 in Kafka's own test
            driver.send(w.lines, key, "x")
        driver.send(w.lines, None, "x")
        driver.send(w.lines, "abc", "y", partition=1)
        counts = [driver.table(w.counts, partition=at) for at in range(3)]
        expected: list[dict[str, int]] = [{"x": 1}, {"y": 1}, {}]
        for number in (-973932308, -790332482, 479470107):
            rows = expected[(number & 0x7FFFFFFF) % 3]
            rows["x"] = rows.get("x", 0) + 1
        assert counts == expected
        with pytest.raises(UsageError, match="no partition 3; there are 3"):
            driver.send(w.lines, "k", "x", partition=3)


def test_records_have_headers_and_timestamps() -> None:
    app = Worker("g")
    lines, copies = (
        app.topic("lines", key=str, value=str),
        app.output("copies", key=str, value=str),
    )

    @app.each(lines)
    def copy(record: Record[str, str], ctx: Context) -> None:
        stamp = record.timestamp if record.headers else None
        ctx.send(copies, key=record.key, headers=record.headers, timestamp=stamp)

    with TestDriver(app) as driver:
        driver.send(lines, "k", "v", headers=[("h", b"1"), ("h", None)], timestamp=5)
        driver.advance(seconds=2)
        driver.send(lines, "l")
        assert driver.records(copies) == [
            Record("k", None, 0, 5, [("h", b"1"), ("h", None)], "copies", 0),
            Record("l", None, 1, 1_700_000_002_000, [], "copies", 0),
        ]


def test_async_handlers_work_and_may_wait() -> None:
    app = Worker("g")
    lines, copies = (
        app.topic("lines", key=str, value=str),
        app.output("copies", key=str, value=str),
    )

    @app.process(lines)
    async def copy(batch: Batch[str, str], ctx: Context) -> None:
        for key, value in batch.items():
            await asyncio.sleep(0.01)  # longer than the driver looks at the loop alone
            ctx.send(copies, key=key, value=value)

    with TestDriver(app, partitions=2) as driver:
        driver.send_many(lines, [("a", "1"), ("b", "2")], partition=0)
        driver.send(lines, "c", "3", partition=1)
        assert driver.outputs(copies) == [("a", "1"), ("b", "2"), ("c", "3")]


def test_a_handler_that_does_not_end_is_told() -> None:
    app = Worker("g")
    lines = app.topic("lines", key=str, value=str)

    @app.each(lines)
    async def stand_still(record: Record[str, str], ctx: Context) -> None:
        await asyncio.Event().wait()

    def use() -> None:
        with TestDriver(app, timeout=0.5) as driver:
            driver.send(lines, "k", "v")

    with pytest.raises(AssertionError, match=r"lines/0 has committed lines up to 0 of 1"):
        use()


def test_it_works_where_an_event_loop_runs() -> None:
    w = words()

    async def test() -> None:
        with TestDriver(w.app) as driver:
            driver.send(w.lines, "k", "a")
            await asyncio.sleep(0)
            driver.restart()
            driver.send(w.lines, "k", "a")
            assert driver.table(w.counts) == {"a": 2}

    asyncio.run(test())


def test_entered_without_a_loop_and_used_in_one_is_refused() -> None:
    w = words()
    with TestDriver(w.app) as driver:

        async def test() -> None:
            driver.send(w.lines, "k", "a")

        with pytest.raises(UsageError, match="use it in the same place"):
            asyncio.run(test())


def test_two_drivers_one_after_the_other() -> None:
    w = words()
    first, second = TestDriver(w.app), TestDriver(w.app)
    for each in (first, second):
        with each as driver:
            driver.send(w.lines, "k", "a")
            assert driver.table(w.counts) == {"a": 1}
    with pytest.raises(UsageError, match="used already"), first:
        pass


# -- mistakes, ends, questions -----------------------------------------------------------------


def test_errors_of_the_test_itself_are_said() -> None:
    w, other = words(), words()
    with TestDriver(w.app) as driver:
        with pytest.raises(UsageError, match="advance\\(\\) takes a time of more than 0"):
            driver.advance()
        with pytest.raises(UsageError, match="'lines' is no source topic of this app; give what"):
            driver.send("lines", "k", "v")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="Topic 'lines' is no source topic of this app"):
            driver.send(other.lines, "k", "v")
        with pytest.raises(UsageError, match="Output 'changes' is no output of this app"):
            driver.outputs(other.changes)
        for ask in (driver.table, driver.changelog):
            with pytest.raises(UsageError, match="Table 'counts' is no table of this app"):
                ask(other.counts)
            with pytest.raises(UsageError, match="there is no partition 1; there are 1"):
                ask(w.counts, partition=1)
        foreign = other.app.source_table("names", key=str, value=str)
        with pytest.raises(UsageError, match="SourceTable 'names' is no table of this app"):
            driver.put(foreign, "k", "v")
        with pytest.raises(UsageError, match="Table 'counts' is no source or global table"):
            driver.put(w.counts, "k", 1)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no partition 1; there are 1"):
            driver.revoke(1)
        with pytest.raises(UsageError, match="a time of more than 0"):
            driver.advance(seconds=-1)
    with pytest.raises(UsageError, match="partitions is 0"):
        TestDriver(w.app, partitions=0)
    with pytest.raises(UsageError, match="with block"):
        TestDriver(w.app).send(w.lines, "k", "v")


def test_a_handler_cannot_drive() -> None:
    driver: TestDriver | None = None

    def before(line: str) -> None:
        assert driver is not None
        driver.send(w.lines, "k", "again")

    w = words(before)

    def use() -> None:
        nonlocal driver
        with TestDriver(w.app) as driver:
            driver.send(w.lines, "k", "x")

    with pytest.raises(HandlerFailed, match="cannot drive its own test"):
        use()


def test_a_mistake_in_the_declarations_is_said_at_once() -> None:
    app = Worker("g")
    app.topic("lines", key=str, value=str)
    with pytest.raises(UsageError, match="topic 'lines' has no handler"):
        TestDriver(app)


def test_an_app_that_stops_itself() -> None:
    app = Worker("g")
    lines, copies = (
        app.topic("lines", key=str, value=str),
        app.output("copies", key=str, value=str),
    )

    @app.each(lines)
    def copy(record: Record[str, str], ctx: Context) -> None:
        ctx.send(copies, key=record.key)
        if record.key == "stop":
            app.stop()

    with TestDriver(app) as driver:
        driver.send_many(lines, [("a", None), ("stop", None), ("b", None)])
        assert driver.outputs(copies) == [("a", None), ("stop", None)]
        with pytest.raises(UsageError, match="the worker has ended; restart"):
            driver.send(lines, "c")
        driver.restart()
        assert driver.outputs(copies)[2:] == [("b", None)]


def test_stores_that_are_given_stay(tmp_path_factory: pytest.TempPathFactory) -> None:
    w, stores = words(), SqliteStores(tmp_path_factory.mktemp("stores"))
    with TestDriver(w.app, stores=stores) as driver:
        driver.send(w.lines, "k", "a b")
        driver.restart()
        driver.revoke()
        driver.send(w.lines, "k", "a")
        assert driver.table(w.counts) == {"a": 2, "b": 1}


async def _located(app: Worker, counts: Table[str, int], word: str) -> int:
    return (await app.locate(counts, word)).partition


def test_locate_and_local_answer_inside_of_handlers() -> None:
    app = Worker("g")
    lines = app.topic("lines", key=str, value=str)
    counts = app.table("counts", key=str, value=int, default=int)
    found: list[tuple[int, dict[str, int]]] = []

    @app.each(lines, tables=[counts])
    async def count(record: Record[str, str], ctx: Context) -> None:
        key = record.key or ""
        ctx[counts][key] += 1
        found.append((await _located(app, counts, key), dict(app.local(counts).items())))

    with TestDriver(app, partitions=5) as driver:
        driver.send(lines, "abc", "x")
        driver.send(lines, "abc", "x")
        assert found == [(479470107 % 5, {}), (479470107 % 5, {"abc": 1})]
