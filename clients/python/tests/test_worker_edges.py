"""A Worker where two things meet: calls by time and tables that are replayed, ends and handlers."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from aio import run
from pillion import Context, HandlerFailed, Record, Superseded, Worker
from pillion import _messages as m
from pillion._codes import CloseCode
from pillion._encode import encode
from pillion._frames import RECORDS
from pillion.testing import FakeTask
from test_worker import App
from working import Stage, pairs, staged


class Timed(App):
    """Has a call by time, which waits where it is told to."""

    def __init__(self, *, everywhere: bool = False) -> None:
        super().__init__(names=True)
        self.ticks: list[str | None] = []
        self.app.every(seconds=60, tables=[self.lists, self.names])(self.on_time)
        if everywhere:
            self.all = self.app.global_table("all", key=str, value=str)
            words = self.app.topic("others", key=str, value=str)
            self.app.join(self.words, words)
            self.app.each(words, tables=[self.all])(self.on_other)

    async def on_other(self, record: Record[str, str], ctx: Context) -> None:
        self.inside.set()
        await self.go.wait()
        self.calls.append(ctx[self.all].get("k", "none"))

    async def on_time(self, ctx: Context) -> None:
        self.ticks.append(ctx[self.names].get("k"))
        self.inside.set()
        await self.go.wait()
        self.ticks.append(ctx[self.names].get("k"))
        ctx[self.lists]["time"] = ["x"]


async def whole(s: Stage) -> FakeTask:
    task = await s.worker.assign("words")
    await s.worker.expect(m.Opened)
    await s.worker.restore(task, "names", [(b"k", b"old")])
    await s.worker.restored(task)
    return task


@run
async def test_a_reset_waits_for_a_call_by_time() -> None:
    it = Timed()
    async with staged(it.app) as s:
        task = await whole(s)
        await s.clock.waiting.wait()
        s.clock.move(60)
        await it.inside.wait()
        await s.worker.reset(task, "names")
        await s.worker.expect_nothing()
        it.go.set()
        assert (await s.commit()).changelog == {"lists": [(b"time", b'["x"]')]}
        await s.worker.expect(m.Opened)
        assert it.ticks == ["old", "old"]


@run
async def test_a_call_by_time_waits_for_whole_tables() -> None:
    it = Timed()
    it.go.set()
    async with staged(it.app) as s:
        task = await whole(s)
        await s.clock.waiting.wait()
        await s.worker.reset(task, "names")
        await s.worker.expect(m.Opened)
        s.clock.move(60)
        for _ in range(3):
            await s.worker.expect_nothing()
        assert it.ticks == []
        await s.worker.restore(task, "names", [(b"k", b"new")])
        await s.worker.restored(task)
        await s.commit()
        assert it.ticks == ["new", "new"]


@run
async def test_a_call_by_time_waits_for_global_tables() -> None:
    it = Timed(everywhere=True)
    it.go.set()
    async with staged(it.app) as s:
        global_ = await s.worker.assign("all")
        await s.worker.expect(m.Opened)
        await whole(s)
        await s.worker.expect_nothing()
        s.clock.move(60)
        for _ in range(3):
            await s.worker.expect_nothing()
        assert it.ticks == []
        await s.worker.restored(global_)
        await s.commit()
        assert it.ticks == ["old", "old"]


@run
async def test_rows_of_a_global_table_that_is_lost_are_not_taken_for_missing() -> None:
    it = Timed(everywhere=True)
    async with staged(it.app) as s:
        for_all = await s.worker.assign("all")
        await s.worker.expect(m.Opened)
        await s.worker.restore(for_all, "all", [(b"k", b"there")])
        await s.worker.restored(for_all)
        task = await s.open("words")
        await s.records(task, "others", *pairs("a"))
        await it.inside.wait()
        await s.worker.lose(for_all)
        for_all = await s.worker.assign("all")
        await s.worker.expect(m.Opened)
        it.go.set()
        error = await s.worker.expect(m.Error)
        assert (error.task, error.message) == (
            "words/0", "global table 'all' is being restored",
        )  # fmt: skip
        await s.worker.lose(task, error.code)
        task = await s.open("words")
        await s.records(task, "others", *pairs("a"))
        await s.worker.expect_nothing()
        await s.worker.restore(for_all, "all", [(b"k", b"there")])
        await s.worker.restored(for_all)
        assert (await s.commit()).message.source_next == {"words": 0, "others": 1}
        assert it.calls == ["there"]


@run
async def test_no_handler_outlives_the_run() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("wait"))
        await it.inside.wait()
        await s.worker.lose(task)
        await s.open("words")  # which waits for the handler of the former epoch
        await it.app.stop(timeout=0.01)
        left = [each for each in asyncio.all_tasks() if each.get_name().startswith("pillion task")]
        assert left == []


@run
async def test_stop_in_a_handler_whose_task_is_lost() -> None:
    app = Worker("g")
    words = app.topic("words", key=str, value=str)
    inside, go, after = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.each(words)
    async def stop(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        inside.set()
        await go.wait()
        await app.stop()
        after.set()

    async with staged(app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await inside.wait()
        await s.worker.lose(task)
        await s.open("words")
        go.set()
        async with asyncio.timeout(5):  # and not after the ten seconds of stop()
            await after.wait()
            await s.work


@run
async def test_a_run_that_is_cancelled_at_its_end_is_over() -> None:
    it = App()
    async with staged(it.app) as s:
        await s.open("words")
        it.app.stop()
        while not s.work.done():
            s.work.cancel()
            await asyncio.sleep(0)
        assert s.runtime.over


@run
async def test_the_position_before_a_bad_record_is_behind_the_one_before() -> None:
    it = App(each=False)
    async with staged(it.app) as s:
        task = await s.open("words")
        stream = task.assign.sources[0].stream
        frame = encode(
            RECORDS, stream, 1, 0, 9, [b"k", b"k"], [b"a", b"\xff"], offsets=[2, 7],
        )  # fmt: skip
        await s.worker.send_raw(frame)
        assert (await s.commit()).message.source_next == {"words": 3}
        with pytest.raises(HandlerFailed, match="words/0 offset 7"):
            await s.work


@run
async def test_a_commit_that_came_before_records_flow_opens_the_task_anew() -> None:
    it = Timed()
    it.go.set()
    async with staged(it.app) as s:
        task = await whole(s)
        await s.clock.waiting.wait()
        s.clock.move(60)
        commit = (await s.worker.commit()).message
        answer = m.Error("not_allowed", "no", commit.id, commit.task, commit.epoch)
        await s.worker.send(answer)
        error = await s.worker.expect(m.Error)
        assert (error.task, error.code) == ("words/0", "worker_failed")
        await s.worker.lose(task, error.code)
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await s.commit()


@run
async def test_a_handler_that_swallows_its_cancellation_does_not_keep_the_run() -> None:
    app = Worker("g")
    words = app.topic("words", key=str, value=str)
    inside = asyncio.Event()

    @app.each(words)
    async def stubborn(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        inside.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async with staged(app, commit_interval=60) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await inside.wait()
        await s.worker.close(CloseCode.SUPERSEDED)
        async with asyncio.timeout(5):
            with pytest.raises(Superseded):
                await s.work


@run
async def test_commits_before_their_time_leave_no_timers_behind() -> None:
    it = App()
    limits = m.Limits(1 << 20, 1 << 20, 4096, 2)
    async with staged(it.app, commit_interval=3600, limits=limits) as s:
        task = await s.open("words")
        await s.records(task, "words", *((b"%d" % i, b"x" * 1000) for i in range(40)))
        for _ in range(12):
            await s.commit()
        assert s.clock.open <= 2
