"""How a Worker fails and ends, how it is run beside other things, and what it can be asked."""

from __future__ import annotations

import asyncio

import pytest

from aio import run
from pillion import (
    Context,
    HandlerFailed,
    Record,
    Skip,
    Superseded,
    UsageError,
    Worker,
)
from pillion import _messages as m
from pillion._codes import CloseCode
from pillion.testing import FakeSidecar
from test_worker import App
from working import pairs, staged, until


@run
async def test_a_failure_commits_what_was_before_and_ends() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "fail", "c"))
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a"]')]}
        assert len(commit.outputs["out"]) == 1
        assert commit.message.source_next == {"words": 1}
        with pytest.raises(HandlerFailed) as caught:
            await s.work
        assert str(caught.value) == (
            "on_word has failed at words/0 offset 1: ValueError: no such word; what was before is "
            "committed, and the next start begins there (handler_failed)"
        )
        assert isinstance(caught.value.__cause__, ValueError)
        assert it.calls == ["a", "fail"]


@run
async def test_a_handler_that_awaits_what_was_cancelled_has_failed() -> None:
    app = Worker("g")
    words = app.topic("words", key=str, value=str)

    @app.each(words)
    async def on_word(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        never = asyncio.get_running_loop().create_future()
        never.cancel()
        await never

    async with staged(app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        with pytest.raises(HandlerFailed, match="RuntimeError: what it awaited was cancelled"):
            await s.work


@run
async def test_what_an_app_has_not_declared_is_no_fault_of_a_record() -> None:
    app, other = Worker("g", on_error=Skip()), Worker("g")
    words = app.topic("words", key=str, value=str)
    out = other.output("out", key=str, value=str)

    @app.each(words)
    def on_word(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        ctx.send(out, key=record.key)

    async with staged(app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        with pytest.raises(UsageError, match="on_word writes to 'out', which is no output"):
            await s.work


@run
async def test_a_failing_batch_is_dropped_whole() -> None:
    it = App(each=False)
    async with staged(it.app, commit_interval=60) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await s.clock.waiting.wait()
        await s.records(task, "words", *pairs("b", "fail"))
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a"]')]}
        assert commit.message.source_next == {"words": 1}
        with pytest.raises(HandlerFailed, match="in the batch of words/0 from offset 1: Value"):
            await s.work


@run
async def test_other_tasks_commit_before_the_end() -> None:
    it = App()
    async with staged(it.app, commit_interval=60) as s:
        one, two = await s.open("words", 0), await s.open("words", 1)
        await s.records(one, "words", *pairs("a"))
        await s.clock.waiting.wait()
        await s.records(two, "words", *pairs("fail"))
        assert (await s.commit()).message.task == "words/0"
        with pytest.raises(HandlerFailed):
            await s.work


@run
async def test_stop_in_a_handler() -> None:
    app = Worker("g")
    words = app.topic("words", key=str, value=str)

    @app.each(words)
    async def stop(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        await app.stop()
        app.stop()

    async with staged(app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "b"))
        assert (await s.commit()).message.source_next == {"words": 1}
        await s.work
        await app.stop()


@run
async def test_stop_is_bounded() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("wait"))
        await it.inside.wait()
        await it.app.stop(timeout=0.01)
        await s.work
        assert s.worker.pending() == []


@run
async def test_stop_without_a_sidecar() -> None:
    it = App()
    it.app = Worker("g", url="ws://127.0.0.1:9")
    words = it.app.topic("words", key=str, value=str)
    it.app.each(words)(it.on_word)
    async with it.app.running():
        await it.app.stop()


@run
async def test_a_drained_sidecar_ends_it_well() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.worker.revoke(task)
        await s.worker.expect(m.Released)
        await s.runtime.ready()
        assert it.app.is_ready
        await s.worker.close(CloseCode.DRAINED)
        await s.work
        await it.app.ended()
        assert not it.app.is_ready
        with pytest.raises(UsageError, match="the worker has ended"):
            await it.app.ready()


@run
async def test_running_ends_its_block_when_the_app_fails() -> None:
    it = App()
    async with FakeSidecar() as sidecar:
        it.app = Worker("g", url=sidecar.url)
        it.app.each(it.app.topic("words", key=str, value=str))(it.on_word)

        async def body() -> None:
            async with it.app.running():
                await (await sidecar.accept()).close(CloseCode.SUPERSEDED)
                await asyncio.Event().wait()

        with pytest.raises(Superseded):
            await body()


@run
async def test_running_raises_the_failure_of_the_app_and_not_what_follows_from_it() -> None:
    it = App()
    async with FakeSidecar() as sidecar:
        it.app = Worker("g", url=sidecar.url)
        it.app.each(it.app.topic("words", key=str, value=str), tables=[])(it.on_word)

        async def body() -> None:
            async with it.app.running():
                await (await sidecar.accept()).close(CloseCode.SUPERSEDED)
                with pytest.raises(Superseded):
                    await it.app.ready()
                it.app.local(it.lists).get("key")

        with pytest.raises(Superseded):
            await body()


@run
async def test_running_leaves_no_cancellation_behind() -> None:
    it = App()
    async with FakeSidecar() as sidecar:
        it.app = Worker("g", url=sidecar.url)
        it.app.each(it.app.topic("words", key=str, value=str))(it.on_word)

        async def body() -> None:
            async with it.app.running():
                await (await sidecar.accept()).close(CloseCode.SUPERSEDED)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise RuntimeError("what follows from it") from None

        with pytest.raises(Superseded):
            await body()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@run
async def test_running_may_tell_of_a_failure_instead() -> None:
    it = App()
    told: list[BaseException] = []
    failed = asyncio.Event()

    def on_failure(error: BaseException) -> None:
        told.append(error)
        failed.set()

    async with FakeSidecar() as sidecar:
        it.app = Worker("g", url=sidecar.url)
        it.app.each(it.app.topic("words", key=str, value=str))(it.on_word)

        async def body() -> None:
            async with it.app.running(on_failure=on_failure):
                await (await sidecar.accept()).close(CloseCode.SUPERSEDED)
                await failed.wait()
                with pytest.raises(Superseded):
                    await it.app.ready()

        with pytest.raises(Superseded):
            await body()
    assert len(told) == 1


@run
async def test_local_rows_of_actives_and_standbys() -> None:
    it = App()
    async with staged(it.app) as s:
        active = await s.open("words", 0)
        standby = await s.worker.assign("words", 1, role="standby")
        await s.worker.expect(m.Opened)
        await s.worker.restore(standby, "lists", [(b"there", b'["x"]')])
        await s.records(active, "words", (b"here", b"wait"))
        await it.inside.wait()
        await s.runtime.ready()
        rows = it.app.local(it.lists)
        await until(lambda: "there" in rows)
        assert dict(rows) == {"there": ["x"]}  # the other one is not committed yet
        it.go.set()
        await s.commit()
        await until(lambda: "here" in rows)
        assert (rows["here"], rows.get("gone"), len(rows)) == (["wait"], None, 2)
        await s.worker.lose(active)
        await until(lambda: "here" not in rows)


@run
async def test_a_worker_whose_tasks_went_elsewhere_is_ready() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await s.commit()
        await until(lambda: "k" in it.app.local(it.lists))
        await s.worker.lose(task)
        await until(lambda: "k" not in it.app.local(it.lists))
        await asyncio.wait_for(s.runtime.ready(), 5)


def test_nothing_is_asked_of_a_worker_that_does_not_run() -> None:
    it = App()
    with pytest.raises(UsageError, match="does not run"):
        it.app.local(it.lists)
    with pytest.raises(UsageError, match="does not run"):
        asyncio.run(it.app.ready())


@run
async def test_an_app_runs_once_at_a_time() -> None:
    it = App()
    async with staged(it.app):
        with pytest.raises(UsageError, match="runs already"):
            async with it.app.running():
                pass


@run
async def test_locate_by_key_and_by_partition() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words", 3)
        for key, partition in (("ann", None), (None, 3)):
            asking = asyncio.create_task(it.app.locate(it.lists, key, partition=partition))
            question = await s.worker.expect(m.Locate)
            assert question.table == "lists"
            assert (question.key, question.partition) in (("YW5u", None), ("", 3))
            owner = m.Holder("m1", "host:1")
            await s.worker.send(m.Located(question.id, "words", 3, "words/3", False, owner))
            found = await asking
            assert found.active is not None
            assert (found.partition, found.active.address) == (3, "host:1")
            # The group may name this worker before and after it has the task.
            assert found.here is (key is not None)
            if found.here:
                await s.worker.revoke(task)
                await s.worker.expect(m.Released)
        with pytest.raises(UsageError, match="a key or a partition"):
            await it.app.locate(it.lists)


@run
async def test_located_directly_behind_lost_is_not_here() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words", 3)
        asking = asyncio.create_task(it.app.locate(it.lists, partition=3))
        question = await s.worker.expect(m.Locate)
        for partition in range(10, 20):  # they are taken first, one by one
            await s.worker.assign("words", partition)
        await s.worker.lose(task)
        owner = m.Holder("m2", "host:2")
        await s.worker.send(m.Located(question.id, "words", 3, "words/3", False, owner))
        assert not (await asking).here
