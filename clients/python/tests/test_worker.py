"""A Worker at a sidecar: units, commits, hand-over, tables that are replayed or fail."""

from __future__ import annotations

import asyncio

from aio import run
from pillion import (
    Batch,
    Context,
    MemoryStores,
    Record,
    SourceTable,
    StoreError,
    Table,
    Worker,
)
from pillion import _messages as m
from pillion.client import Task
from pillion.stores import MemoryStore
from working import pairs, staged, until


class App:
    """Words in, a list of them kept for each key, lengths out; async where it is told to wait."""

    def __init__(self, *, each: bool = True, names: bool = False) -> None:
        self.app = Worker("g")
        self.words = self.app.topic("words", key=str, value=str)
        self.lists = self.app.table("lists", key=str, value=list[str], default=list)
        self.out = self.app.output("out", key=str, value=int)
        self.calls: list[str] = []
        self.inside = asyncio.Event()
        self.go = asyncio.Event()
        tables: list[Table[str, list[str]] | SourceTable[str, str]] = [self.lists]
        if names:
            self.names = self.app.source_table("names", key=str, value=str)
            tables.append(self.names)
        if each:
            self.app.each(self.words, tables=tables)(self.on_word)
        else:
            self.app.process(self.words, tables=tables)(self.on_words)

    def named(self, key: str) -> str | None:
        return self.app.local(self.names).get(key)

    async def on_word(self, record: Record[str, str], ctx: Context) -> None:
        await self.take(record.key or "", record.value or "", ctx)

    async def on_words(self, batch: Batch[str, str], ctx: Context) -> None:
        for key, value in batch.items():
            await self.take(key or "", value or "", ctx)

    async def take(self, key: str, value: str, ctx: Context) -> None:
        self.calls.append(value)
        ctx[self.lists][key].append(value)
        ctx.send(self.out, key=key, value=len(value))
        if value == "wait":
            self.inside.set()
            await self.go.wait()
        if value == "fail":
            raise ValueError("no such word")


@run
async def test_a_commit_has_one_write_per_key() -> None:
    it = App(each=False)
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "b"), *pairs("c", key=b"x"))
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a","b"]'), (b"x", b'["c"]')]}
        assert [key for key, _ in commit.outputs["out"]] == [b"k", b"k", b"x"]
        assert commit.message.source_next == {"words": 3}
        await s.records(task, "words", *pairs("d"))
        assert (await s.commit()).changelog == {"lists": [(b"k", b'["a","b","d"]')]}


@run
async def test_commits_wait_for_the_interval() -> None:
    it = App()
    async with staged(it.app, commit_interval=5) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await s.clock.waiting.wait()
        await s.records(task, "words", *pairs("b"))
        await until(lambda: it.calls == ["a", "b"])
        await s.worker.expect_nothing()
        s.clock.move(5)
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a","b"]')]}
        assert commit.message.source_next == {"words": 2}


@run
async def test_what_is_done_is_committed_beside_a_handler_that_waits() -> None:
    it = App()
    async with staged(it.app, commit_interval=5) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "wait", "c"))
        await it.inside.wait()
        s.clock.move(5)
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a"]')]}
        assert commit.message.source_next == {"words": 1}
        assert len(commit.outputs["out"]) == 1
        it.go.set()
        await until(lambda: it.calls == ["a", "wait", "c"])
        s.clock.move(5)
        commit = await s.commit()
        assert commit.changelog == {"lists": [(b"k", b'["a","wait","c"]')]}
        assert commit.message.source_next == {"words": 3}


@run
async def test_commits_beside_a_handler_wait_for_those_before() -> None:
    it = App()
    async with staged(it.app, commit_interval=5) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        await until(lambda: it.calls == ["a"])
        s.clock.move(5)
        first = await s.worker.commit()
        await s.records(task, "words", *pairs("b"))
        await until(lambda: it.calls == ["a", "b"])
        s.clock.move(5)
        second = await s.worker.commit()
        await s.records(task, "words", *pairs("c", "wait"))
        await it.inside.wait()
        s.clock.move(5)
        await s.worker.expect_nothing()
        await s.worker.committed(first)
        third = await s.worker.commit()
        assert third.changelog == {"lists": [(b"k", b'["a","b","c"]')]}
        await s.worker.committed(second)
        await s.worker.committed(third)
        it.go.set()


@run
async def test_it_works_on_while_two_commits_wait() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        for word in ("a", "b", "c", "d"):
            await s.records(task, "words", *pairs(word))
        first, second = await s.worker.commit(), await s.worker.commit()
        await until(lambda: len(it.calls) == 4)
        await s.worker.expect_nothing()
        await s.worker.committed(first)
        await s.worker.committed(second)
        rest = await s.commit()
        assert rest.message.source_next["words"] in (3, 4)
        assert rest.changelog["lists"][0][1] in (b'["a","b","c"]', b'["a","b","c","d"]')


@run
async def test_what_was_aborted_comes_again() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        commit = (await s.worker.commit()).message
        await s.worker.send(
            m.Aborted(commit.id, commit.task, commit.epoch, "kafka_unreachable", "no")
        )
        await s.worker.lose(task, "aborted")
        task = await s.open("words")
        await s.records(task, "words", *pairs("a"))
        assert (await s.commit()).changelog == {"lists": [(b"k", b'["a"]')]}


@run
async def test_tasks_interleave_and_each_has_one_handler() -> None:
    it = App()
    async with staged(it.app) as s:
        one, two = await s.open("words", 0), await s.open("words", 1)
        await s.records(one, "words", *pairs("wait"))
        await it.inside.wait()
        await s.records(one, "words", *pairs("later"))
        await s.records(two, "words", *pairs("now"))
        commit = await s.commit()
        assert (commit.message.task, it.calls) == ("words/1", ["wait", "now"])
        it.go.set()
        assert (await s.commit()).message.task == "words/0"
        assert (await s.commit()).message.source_next == {"words": 2}
        assert it.calls == ["wait", "now", "later"]


@run
async def test_revoke_in_a_batch_of_each_commits_the_records_done() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "wait", "c"))
        await it.inside.wait()
        await s.worker.revoke(task)
        await s.worker.expect_nothing()
        it.go.set()
        commits = [await s.commit()]
        while commits[-1].message.source_next != {"words": 2}:
            commits.append(await s.commit())
        await s.worker.expect(m.Released)
        assert it.calls == ["a", "wait"]


@run
async def test_revoke_in_a_batch_of_process_finishes_it() -> None:
    it = App(each=False)
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "wait", "c"))
        await it.inside.wait()
        await s.worker.revoke(task)
        it.go.set()
        commit = await s.commit()
        assert commit.message.source_next == {"words": 3}
        await s.worker.expect(m.Released)


@run
async def test_lost_in_a_handler_drops_its_work_and_the_next_epoch_waits_for_it() -> None:
    it = App()
    async with staged(it.app) as s:
        task = await s.open("words")
        await s.records(task, "words", *pairs("wait"))
        await it.inside.wait()
        await s.worker.lose(task)
        again = await s.open("words")
        await s.records(again, "words", *pairs("b"))
        await s.worker.expect_nothing()
        assert it.calls == ["wait"]
        it.go.set()
        assert (await s.commit()).changelog == {"lists": [(b"k", b'["b"]')]}


@run
async def test_every_runs_once_per_task_and_commits() -> None:
    it = App()

    @it.app.every(minutes=1)
    def tick(ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        ctx[it.lists]["ticks"].append(str(ctx.partition))

    async with staged(it.app) as s:
        await s.open("words", 0)
        await s.open("words", 1)
        await s.clock.waiting.wait()
        s.clock.move(60)
        commits = [await s.commit(), await s.commit()]
        found = {commit.message.task: commit.changelog["lists"] for commit in commits}
        assert found == {
            "words/0": [(b"ticks", b'["0"]')],
            "words/1": [(b"ticks", b'["1"]')],
        }
        assert [commit.message.source_next for commit in commits] == [{"words": 0}] * 2
        s.clock.move(3600)  # late: once, not sixty times
        assert (await s.commit()).changelog["lists"][0][1] in (b'["0","0"]', b'["1","1"]')
        await s.commit()
        await s.worker.expect_nothing()


@run
async def test_a_reset_waits_for_the_handler() -> None:
    it = App(names=True)
    async with staged(it.app) as s:
        task = await s.worker.assign("words")
        await s.worker.expect(m.Opened)
        await s.worker.restore(task, "names", [(b"k", b"old")])
        await s.worker.restored(task)
        await s.records(task, "words", *pairs("wait", "b"))
        await it.inside.wait()
        await s.worker.reset(task, "names")
        await s.worker.expect_nothing()
        assert it.named("k") == "old"
        it.go.set()
        await s.commit()
        await s.worker.expect(m.Opened)
        assert it.named("k") is None


class Failing(MemoryStore):
    """Fails once when it is told to."""

    failing = False

    def get(self, key: bytes) -> bytes | None:
        if self.failing:
            self.failing = False
            raise StoreError("the disk is gone")
        return super().get(key)


class FailingStores(MemoryStores):
    def __init__(self) -> None:
        super().__init__()
        self.store = Failing()

    def open(self, task: Task, table: str) -> MemoryStore:
        return self.store


@run
async def test_a_store_that_fails_in_a_handler_is_opened_anew() -> None:
    it, stores = App(), FailingStores()
    async with staged(it.app, stores=stores) as s:
        task = await s.open("words")
        stores.store.failing = True
        await s.records(task, "words", *pairs("a", "b"))
        error = await s.worker.expect(m.Error)
        assert (error.task, error.message) == ("words/0", "the disk is gone")
        await s.worker.lose(task, "store_open_failed")
        task = await s.open("words")
        await s.records(task, "words", *pairs("a", "b"))
        assert (await s.commit()).changelog == {"lists": [(b"k", b'["a","b"]')]}


@run
async def test_a_commit_stays_below_what_the_sidecar_takes() -> None:
    it = App()
    limits = m.Limits(1 << 20, 1 << 20, 4096, 2)
    async with staged(it.app, commit_interval=60, limits=limits) as s:
        task = await s.open("words")
        words = [(b"%d" % i, b"x" * 1000) for i in range(20)]
        await s.records(task, "words", *words)
        seen: list[bytes | None] = []
        while len(seen) < 18:
            commit = await s.commit()
            size = sum(len(frame.data) for frame in commit.frames)
            assert size <= 4096
            seen += [key for key, _ in commit.changelog["lists"]]
        assert seen == [b"%d" % i for i in range(len(seen))]
