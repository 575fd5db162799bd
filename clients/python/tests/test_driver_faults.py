"""TestDriver: time, rebalances, crashes, commits that fail, and handlers that do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pillion import Batch, Context, HandlerFailed, Record, UsageError, Worker
from pillion.testing import TestDriver
from test_driver import words

# -- time ---------------------------------------------------------------------------------------


def test_calls_by_time_are_made_when_they_are_due() -> None:
    app = Worker("g")
    lines = app.topic("lines", key=str, value=str)
    open_ = app.table("open", key=str, value=int)
    out = app.output("out", key=str, value=int)
    calls: list[str] = []

    @app.each(lines, tables=[open_])
    def on_line(record: Record[str, str], ctx: Context) -> None:
        ctx[open_][record.key or ""] = 0

    @app.every(seconds=10)
    async def grow(ctx: Context) -> None:
        calls.append("grow")
        await asyncio.sleep(0)
        for key, age in list(ctx[open_].items()):
            ctx[open_][key] = age + 10

    @app.every(minutes=1)
    def close(ctx: Context) -> None:
        calls.append("close")
        for key, age in list(ctx[open_].items()):
            ctx.send(out, key=key, value=age)
            del ctx[open_][key]

    with TestDriver(app) as driver:
        driver.send(lines, "a", "x")
        driver.advance(seconds=9)
        assert calls == []
        driver.advance(seconds=1)
        assert calls == ["grow"]
        assert driver.table(open_) == {"a": 10}
        driver.advance(minutes=1)
        assert calls.count("grow") == 7
        assert driver.outputs(out) == [("a", 60)]
        assert driver.table(open_) == {}
        driver.advance(hours=1)
        assert calls.count("grow") == 7 + 360
        assert calls.count("close") == 61


def test_time_stands_still_whatever_is_sent() -> None:
    app = Worker("g")
    lines = app.topic("lines", key=str, value=str)
    calls: list[int] = []

    @app.each(lines)
    def on_line(record: Record[str, str], ctx: Context) -> None:
        pass

    @app.every(seconds=0.01)
    def tick(ctx: Context) -> None:
        calls.append(ctx.partition)

    with TestDriver(app, partitions=2) as driver:
        for _ in range(100):
            driver.send(lines, "a", "x")
        assert calls == []
        driver.advance(seconds=0.01)
        assert sorted(calls) == [0, 1]


def test_a_call_by_time_that_fails_ends_the_worker() -> None:
    app = Worker("g")
    lines = app.topic("lines", key=str, value=str)

    @app.each(lines)
    def on_line(record: Record[str, str], ctx: Context) -> None:
        pass

    @app.every(seconds=1)
    def tick(ctx: Context) -> None:
        raise ValueError("too late")

    with TestDriver(app) as driver:
        with pytest.raises(HandlerFailed, match=r"tick has failed in task lines/0.*too late"):
            driver.advance(seconds=1)
        driver.restart()
        driver.advance(seconds=0.5)
        driver.send(lines, "a", "x")


# -- rebalances and crashes ---------------------------------------------------------------------


@pytest.mark.parametrize("what", ["revoke", "lose", "restart", "standby and promote"])
def test_tables_go_on_behind(what: str) -> None:
    w = words()
    with TestDriver(w.app, partitions=2) as driver:
        driver.send(w.lines, "k", "a b", partition=1)
        driver.send(w.lines, "k", "c", partition=0)
        if what == "revoke":
            driver.revoke(partition=1)
        elif what == "lose":
            driver.lose(partition=1)
        elif what == "restart":
            driver.restart()
        else:
            driver.standby(partition=1)
            driver.promote(partition=1)
        driver.send(w.lines, "k", "a", partition=1)
        assert driver.table(w.counts, partition=1) == {"a": 2, "b": 1}
        assert driver.table(w.counts, partition=0) == {"c": 1}
        assert [key for key, _ in driver.outputs(w.changes)] == ["a", "b", "c", "a"]


def test_a_copy_does_nothing_until_it_is_promoted() -> None:
    w = words()
    with TestDriver(w.app, partitions=2) as driver:
        driver.send(w.lines, "k", "a", partition=0)
        driver.standby(0)
        driver.send(w.lines, "k", "a", partition=0)
        driver.send(w.lines, "k", "a", partition=1)
        assert driver.table(w.counts, partition=0) == {"a": 1}
        assert driver.table(w.counts, partition=1) == {"a": 1}
        driver.revoke(0)
        driver.promote(0)
        assert driver.table(w.counts, partition=0) == {"a": 2}


def inside(call: Callable[[TestDriver], None]) -> tuple[TestDriver, list[list[str | None]]]:
    """Count three records of one batch; with the first x something happens meanwhile."""
    calls: list[Callable[[TestDriver], None]] = [call]

    def before(line: str) -> None:
        if line == "x" and calls:
            calls.pop()(driver)

    w = words(before)
    with TestDriver(w.app) as driver:
        driver.send(w.lines, "k", "a")
        driver.send_many(w.lines, [("k", "a"), ("k", "x"), ("k", "a")])
        assert driver.table(w.counts) == {"a": 3, "x": 1}
        assert driver.outputs(w.changes) == [("a", 1), ("a", 2), ("x", 1), ("a", 3)]
    return driver, w.seen


def test_lost_in_the_middle_of_a_batch_it_comes_again() -> None:
    _, seen = inside(lambda driver: driver.lose())
    assert seen == [["a"], ["a", "x", "a"], ["a", "x", "a"]]


def test_revoked_in_the_middle_of_a_batch_it_is_finished() -> None:
    _, seen = inside(lambda driver: driver.revoke())
    assert seen == [["a"], ["a", "x", "a"]]


def test_an_async_handler_is_lost_while_it_waits() -> None:
    app = Worker("g")
    lines, out = app.topic("lines", key=str, value=str), app.output("out", key=str, value=str)
    stale: list[bool] = []

    @app.process(lines)
    async def on_lines(batch: Batch[str, str], ctx: Context) -> None:
        if not stale:
            driver.lose()
        await asyncio.sleep(0.01)
        stale.append(ctx.stale)
        ctx.send(out, key="k")

    with TestDriver(app) as driver:
        driver.send(lines, "k", "v")
        assert stale == [True, False]
        assert driver.outputs(out) == [("k", None)]


# -- commits ------------------------------------------------------------------------------------


def test_an_aborted_commit_is_made_again() -> None:
    w = words()
    with TestDriver(w.app) as driver:
        driver.send(w.lines, "k", "a")
        driver.abort_next_commit()
        driver.send(w.lines, "k", "a b")
        assert w.seen == [["a"], ["a b"], ["a b"]]
        assert driver.table(w.counts) == {"a": 2, "b": 1}
        assert driver.outputs(w.changes) == [("a", 1), ("a", 2), ("b", 1)]
        assert driver.changelog(w.counts) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_commit_is_what_the_changelog_says(landed: bool) -> None:
    w = words()
    with TestDriver(w.app) as driver:
        driver.send(w.lines, "k", "a")
        driver.unknown_next_commit(landed)
        driver.send(w.lines, "k", "a")
        driver.send(w.lines, "k", "a")
        assert driver.table(w.counts) == {"a": 3}
        assert len(w.seen) == (3 if landed else 4)


# -- handlers that fail -------------------------------------------------------------------------


def poisoned() -> tuple[list[str], Callable[[str], None]]:
    poison = ["boom"]

    def before(line: str) -> None:
        if line in poison:
            raise ValueError(f"{line}!")

    return poison, before


def test_a_batch_that_fails_is_undone_and_comes_again() -> None:
    poison, before = poisoned()
    w = words(before)
    with TestDriver(w.app) as driver:
        driver.send(w.lines, "k", "a")
        with pytest.raises(HandlerFailed, match=r"count has failed.*lines/0.*boom!") as caught:
            driver.send_many(w.lines, [("k", "a"), ("k", "boom"), ("k", "a")])
        assert isinstance(caught.value.__cause__, ValueError)
        assert driver.table(w.counts) == {"a": 1}
        with pytest.raises(UsageError, match="the worker has ended; restart"):
            driver.send(w.lines, "k", "a")
        with pytest.raises(HandlerFailed):
            driver.restart()
        poison.clear()
        driver.restart()
        assert driver.table(w.counts) == {"a": 3, "boom": 1}


def test_a_record_that_fails_is_undone_alone() -> None:
    app = Worker("g")
    lines, out = app.topic("lines", key=str, value=str), app.output("out", key=str, value=str)
    lists = app.table("lists", key=str, value=dict[str, list[str]], default=dict[str, list[str]])
    healed: list[bool] = []

    @app.each(lines, tables=[lists])
    def on_line(record: Record[str, str], ctx: Context) -> None:
        ctx[lists]["all"].setdefault("keys", []).append(record.key or "")
        ctx.send(out, key=record.key)
        if record.value == "boom" and not healed:
            raise ValueError("boom!")

    with TestDriver(app) as driver:
        with pytest.raises(HandlerFailed, match="lines/0 offset 1"):
            driver.send_many(lines, [("a", "x"), ("b", "boom"), ("c", "x")])
        assert driver.table(lists) == {"all": {"keys": ["a"]}}
        assert driver.outputs(out) == [("a", None)]
        healed.append(True)
        driver.restart()
        assert driver.table(lists) == {"all": {"keys": ["a", "b", "c"]}}
        assert driver.outputs(out) == [("a", None), ("b", None), ("c", None)]


def test_an_undeclared_output_fails_the_test() -> None:
    app, other = Worker("g"), Worker("h")
    lines, out = app.topic("lines", key=str, value=str), other.output("out", key=str, value=str)

    @app.each(lines)
    def on_line(record: Record[str, str], ctx: Context) -> None:
        ctx.send(out, key=record.key)

    def use() -> None:
        with TestDriver(app) as driver:
            driver.send(lines, "a", "x")

    with pytest.raises(UsageError, match="'out', which is no output of this app"):
        use()


def test_a_table_that_the_handler_does_not_name_fails_the_test() -> None:
    app = Worker("g")
    lines, others = app.topic("lines", key=str, value=str), app.topic("others", key=str, value=str)
    counts = app.table("counts", key=str, value=int)

    @app.each(lines)
    def on_line(record: Record[str, str], ctx: Context) -> None:
        ctx[counts]["a"] = 1

    @app.each(others, tables=[counts])
    def on_other(record: Record[str, str], ctx: Context) -> None:
        ctx[counts]["a"] = 1

    def use() -> None:
        with TestDriver(app) as driver:
            driver.send(others, "a", "x")
            assert driver.table(counts) == {"a": 1}
            driver.send(lines, "a", "x")

    with pytest.raises(UsageError, match="table 'counts' without declaring it"):
        use()


def test_poison_stops_at_exactly_the_record() -> None:
    app = Worker("g")
    numbers = app.topic("numbers", key=str, value=int)
    sums = app.table("sums", key=str, value=int, default=int)

    @app.process(numbers, tables=[sums])
    def add(batch: Batch[str, int], ctx: Context) -> None:
        for key, value in batch.items():
            ctx[sums][key or ""] += value or 0

    with TestDriver(app) as driver:
        driver.send(numbers, "a", 1)
        with pytest.raises(HandlerFailed, match="numbers/0 offset 1 cannot be processed"):
            driver.send_raw(numbers, b"a", b"no number")
        assert driver.table(sums) == {"a": 1}
