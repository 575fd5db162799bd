"""Tables: stores follow the connection's events; user code writes only its Records branch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

import pillion.client as pillion
from aio import run
from pillion import _messages as m
from pillion.testing import FakeCommit, FakeSidecar, FakeTask, FakeWorker

SETS = [
    pillion.Set("words", ["words"], ["counts", pillion.SourceTable("planes", "planes-topic")]),
]
E = TypeVar("E", bound=pillion.Event)


class Stage:
    """A worker that is driven step by step."""

    def __init__(self, sidecar: FakeSidecar, conn: pillion.Connection, worker: FakeWorker) -> None:
        self.sidecar = sidecar
        self.conn = conn
        self.worker = worker
        self.stores = pillion.MemoryStores()
        self.tables = pillion.Tables(conn, self.stores)

    async def event(self, kind: type[E]) -> E:
        got = await anext(self.tables)
        assert isinstance(got, kind), got
        return got

    async def start(self) -> tuple[FakeTask, pillion.Task]:
        fake = await self.worker.assign("words")
        task = (await self.event(pillion.Assigned)).task
        await self.worker.expect(m.Opened)
        await self.worker.restored(fake, wait=False)
        await self.event(pillion.Restored)
        await self.worker.expect(m.Ready)
        return fake, task

    async def records(self, fake: FakeTask, *values: bytes) -> pillion.Batch:
        await self.worker.records(fake, "words", [(b"k", value) for value in values])
        return (await self.event(pillion.Records)).batch

    async def commit(self, batch: pillion.Batch) -> FakeCommit:
        done, commit = await asyncio.gather(self.tables.commit(batch), self.answer())
        assert done is not None
        return commit

    async def answer(self) -> FakeCommit:
        commit = await self.worker.commit()
        await self.worker.committed(commit)
        return commit


@asynccontextmanager
async def stage() -> AsyncGenerator[Stage]:
    globals_ = [pillion.Global("airports", "airports")]
    async with FakeSidecar() as sidecar:
        conn = pillion.connect(sidecar.url, sets=SETS, globals=globals_, outputs=["out"])
        worker, _ = await asyncio.gather(sidecar.accept(), conn.__aenter__())
        made = Stage(sidecar, conn, worker)
        try:
            yield made
        finally:
            made.tables.close()
            await conn.__aexit__(None, None, None)


@run
async def test_writes_are_seen_at_once_and_stored_when_committed() -> None:
    async with stage() as s:
        fake, task = await s.start()
        counts = s.tables[task]["counts"]
        batch = await s.records(fake, b"x")
        counts[b"a"] = b"1"
        counts[b"b"] = b"2"
        del counts[b"b"]
        assert dict(counts) == {b"a": b"1"}
        store = s.stores.open(task, "counts")
        assert (len(store), store.checkpoint()) == (0, None)
        commit = await s.commit(batch)
        assert commit.changelog == {"counts": [(b"a", b"1"), (b"b", None)]}
        assert commit.message.source_next == {"words": 1}
        assert (dict(store.items()), store.checkpoint()) == ({b"a": b"1"}, "v1:counts:2")
        assert (dict(counts), len(counts), b"b" in counts) == ({b"a": b"1"}, 1, False)
        commit = await s.commit(await s.records(fake, b"y"))
        assert (commit.changelog, store.checkpoint()) == ({}, "v1:counts:2")


@run
async def test_a_key_written_while_its_commit_is_pending_stays() -> None:
    async with stage() as s:
        fake, task = await s.start()
        counts = s.tables[task]["counts"]
        batch = await s.records(fake, b"x")
        counts[b"a"] = b"1"
        counts[b"b"] = b"1"
        pending = asyncio.create_task(s.tables.commit(batch))
        first = await s.worker.commit()
        counts[b"a"] = b"2"
        await s.worker.committed(first)
        await pending
        assert dict(s.stores.open(task, "counts").items()) == {b"a": b"1", b"b": b"1"}
        commit = await s.commit(await s.records(fake, b"y"))
        assert commit.changelog == {"counts": [(b"a", b"2")]}


@run
async def test_rows_of_a_commit_that_is_answered_after_lost_stay_out() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        pending = asyncio.create_task(s.tables.commit(batch))
        commit = await s.worker.commit()
        await s.worker.send(m.Lost(fake.name, fake.epoch, "fenced"))
        await s.worker.committed(commit)
        await pending  # user code has not seen Lost yet
        store = s.stores.open(task, "counts")
        assert (len(store), store.checkpoint()) == (0, None)
        await s.event(pillion.Lost)


@run
async def test_two_commits_on_their_way_do_not_repeat_rows() -> None:
    async with stage() as s:
        fake, task = await s.start()
        counts = s.tables[task]["counts"]
        commits: list[asyncio.Task[pillion.Committed | None]] = []
        for value in (b"1", b"2"):
            batch = await s.records(fake, b"x")
            counts[b"a" + value] = counts[b"both"] = value
            commits.append(asyncio.create_task(s.tables.commit(batch)))
            await asyncio.sleep(0)
        assert dict(counts) == {b"a1": b"1", b"a2": b"2", b"both": b"2"}
        first, second = await s.worker.commit(), await s.worker.commit()
        assert dict(first.changelog["counts"]) == {b"a1": b"1", b"both": b"1"}
        assert dict(second.changelog["counts"]) == {b"a2": b"2", b"both": b"2"}
        await s.worker.committed(first)
        assert await commits[0]
        store = s.stores.open(task, "counts")
        assert (store.get(b"both"), counts[b"both"]) == (b"1", b"2")
        await s.worker.committed(second)
        assert await commits[1]
        assert dict(store.items()) == {b"a1": b"1", b"a2": b"2", b"both": b"2"}


@run
async def test_a_cancelled_commit_goes_on() -> None:
    async with stage() as s:
        fake, task = await s.start()
        counts = s.tables[task]["counts"]
        commits: list[asyncio.Task[pillion.Committed | None]] = []
        for value in (b"1", b"2"):
            batch = await s.records(fake, b"x")
            counts[b"both"] = value
            commits.append(asyncio.create_task(s.tables.commit(batch)))
            await asyncio.sleep(0)
        first, second = await s.worker.commit(), await s.worker.commit()
        for commit in commits:
            commit.cancel()
        await asyncio.wait(commits)
        assert counts[b"both"] == b"2"
        await s.worker.committed(first)
        await s.worker.committed(second)
        commit = await s.commit(await s.records(fake, b"y"))
        assert commit.changelog == {}
        assert dict(s.stores.open(task, "counts").items()) == {b"both": b"2"}


@run
async def test_a_commit_goes_no_further_than_its_batch() -> None:
    async with stage() as s:
        fake, task = await s.start()
        first = await s.records(fake, b"x", b"y")
        second = await s.records(fake, b"z")
        assert (await s.commit(first)).message.source_next == {"words": 2}
        assert (await s.commit(second)).message.source_next == {"words": 3}
        assert (await s.commit(first)).message.source_next == {"words": 3}
        await s.records(fake, b"z")
        done, commit = await asyncio.gather(s.tables.commit(task), s.answer())
        assert done is not None
        assert commit.message.source_next == {"words": 4}


@run
async def test_a_store_that_cannot_take_a_commit_comes_anew() -> None:
    class Full(pillion.MemoryStore):
        def apply_commit(self, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
            raise pillion.StoreError("the disk is full")

    class Stores(pillion.MemoryStores):
        def open(self, task: pillion.Task, table: str) -> pillion.MemoryStore:
            return Full()

    async with stage() as s:
        s.tables = pillion.Tables(s.conn, Stores())
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        await s.worker.records(fake, "words", [(b"k", b"never seen")])
        s.tables[task]["counts"][b"a"] = b"1"
        await s.commit(batch)  # it is in Kafka
        error = await s.worker.expect(m.Error)
        assert (error.code, error.message) == ("store_open_failed", "the disk is full")
        following = asyncio.create_task(s.event(pillion.Lost))
        await s.worker.lose(fake, "store_open_failed")
        await following
        await s.start()


@run
async def test_what_is_refused_at_once_stays_written() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        with pytest.raises(pillion.CommitRejected, match="not an output"):
            await s.tables.commit(batch, outputs={"nope": []})
        assert (await s.commit(batch)).changelog == {"counts": [(b"a", b"1")]}


@run
async def test_restore_reset_and_read_only_tables() -> None:
    async with stage() as s:
        fake = await s.worker.assign("words")
        task = (await s.event(pillion.Assigned)).task
        opened = await s.worker.expect(m.Opened)
        assert opened.checkpoints == {"counts": None, "planes": None}
        await s.worker.restore(fake, "planes", [(b"N1", b"Boeing")])
        await s.event(pillion.Restore)
        planes = s.tables[task]["planes"]
        assert planes[b"N1"] == b"Boeing"
        with pytest.raises(pillion.UsageError, match="'planes' is read-only"):
            planes[b"N1"] = b"x"
        await s.worker.reset(fake, "planes", 5)
        await s.event(pillion.Reset)
        assert (await s.worker.expect(m.Opened)).checkpoints == {"planes": None}
        assert len(planes) == 0
        await s.worker.restore(fake, "planes", [(b"N2", b"Airbus")])
        await s.event(pillion.Restore)
        assert planes.get(b"N2") == b"Airbus"
        with pytest.raises(pillion.UsageError, match="takes bytes"):
            s.tables[task]["counts"]["a"] = b"x"  # type: ignore[index]
        with pytest.raises(KeyError):
            del s.tables[task]["counts"][b"missing"]


@run
async def test_global_tables_are_looked_up_whatever_the_partition() -> None:
    async with stage() as s:
        for partition, code in enumerate((b"IAH", b"JFK")):
            fake = await s.worker.assign("airports", partition)
            await s.event(pillion.Assigned)
            await s.worker.restore(fake, "airports", [(code, b"name of " + code)])
            await s.event(pillion.Restore)
            await s.worker.restored(fake, wait=False)
            await s.event(pillion.Restored)
        assert s.tables.lookup("airports", b"JFK") == b"name of JFK"
        assert s.tables.lookup("airports", b"XXX") is None


@run
async def test_revoking_is_answered_after_user_code_has_seen_it() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        await s.worker.revoke(fake)
        await s.event(pillion.Revoking)
        commit = await s.commit(batch)  # the last one
        assert commit.changelog == {"counts": [(b"a", b"1")]}
        await s.worker.expect_nothing()
        following = asyncio.create_task(anext(s.tables))
        await s.worker.expect(m.Released)
        following.cancel()
        await asyncio.wait([following])
        with pytest.raises(pillion.UsageError, match="has no open tables"):
            s.tables[task]


@run
async def test_a_commit_that_does_not_land_changes_no_store() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        pending = asyncio.create_task(s.tables.commit(batch))
        commit = await s.worker.commit()
        await s.worker.lose(fake)
        await s.worker.send(m.Stale(commit.message.id, fake.name, fake.epoch))
        assert await pending is None
        assert len(s.stores.open(task, "counts")) == 0
        await s.event(pillion.Lost)
        assert await s.tables.commit(batch) is None
        _, task = await s.start()
        assert dict(s.tables[task]["counts"]) == {}


@run
async def test_a_commit_that_no_repetition_can_land_is_raised() -> None:
    async with stage() as s:
        fake, _ = await s.start()
        batch = await s.records(fake, b"x")
        pending = asyncio.create_task(s.tables.commit(batch))
        commit = await s.worker.commit()
        answer = m.Aborted(commit.message.id, fake.name, fake.epoch, "record_too_large", "too big")
        await s.worker.send(answer)
        with pytest.raises(pillion.CommitAborted, match="too big"):
            await pending


@run
async def test_a_reconnect_goes_on_from_the_checkpoints() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        await s.commit(batch)
        s.tables[task]["counts"][b"a"] = b"never committed"
        await s.worker.cut()
        await s.event(pillion.Lost)
        s.worker = await s.sidecar.accept()
        await s.worker.assign("words")
        task = (await s.event(pillion.Assigned)).task
        opened = await s.worker.expect(m.Opened)
        assert opened.checkpoints == {"counts": "v1:counts:2", "planes": None}
        assert dict(s.tables[task]["counts"]) == {b"a": b"1"}


@run
async def test_a_standby_is_promoted_and_writes() -> None:
    async with stage() as s:
        fake = await s.worker.assign("words", role="standby")
        task = (await s.event(pillion.Assigned)).task
        await s.worker.expect(m.Opened)
        await s.worker.restore(fake, "counts", [(b"a", b"1")])
        await s.worker.promote(fake, {"words": 7})
        await s.event(pillion.Restore)
        promoted = await s.event(pillion.Promoted)
        assert (promoted.was, promoted.task.role) == (task, "active")
        await s.worker.expect(m.Ready)
        with pytest.raises(pillion.UsageError):
            s.tables[task]
        counts = s.tables[promoted.task]["counts"]
        assert counts[b"a"] == b"1"
        counts[b"a"] = b"2"


@run
async def test_a_store_that_fails_is_reported_and_the_task_comes_anew() -> None:
    class Full(pillion.MemoryStores):
        failures = 1

        def open(self, task: pillion.Task, table: str) -> pillion.MemoryStore:
            if self.failures:
                self.failures -= 1
                # A message that is too large would end the connection.
                raise pillion.StoreError("the disk is full" + " again" * 1_000_000)
            return super().open(task, table)

    async with stage() as s:
        s.tables = pillion.Tables(s.conn, Full())
        fake = await s.worker.assign("words")
        task = (await s.event(pillion.Assigned)).task
        error = await s.worker.expect(m.Error)
        assert (error.re, error.code, error.message, error.task, error.epoch) == (
            fake.assign.id,
            "store_open_failed",
            ("the disk is full" + " again" * 1000)[:4096],
            "words/0",
            1,
        )
        with pytest.raises(pillion.UsageError):
            s.tables[task]
        await s.worker.lose(fake, "store_open_failed")
        await s.event(pillion.Lost)
        await s.start()


@run
async def test_what_was_committed_before_demoted_is_in_the_copy() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        pending = asyncio.create_task(s.tables.commit(batch))
        commit = await s.worker.commit()
        await s.worker.committed(commit)
        copied = await s.worker.demote(fake)  # at once: both may be read together
        demoted = await s.event(pillion.Demoted)
        assert dict(s.tables[demoted.task]["counts"]) == {b"a": b"1"}
        stored = s.stores.open(demoted.task, "counts").checkpoint()
        assert stored == f"v1:counts:{commit.message.id}"
        assert (await pending) is not None
        await s.worker.restore(copied, "counts", [(b"b", b"2")])
        await s.event(pillion.Restore)
        assert dict(s.tables[demoted.task]["counts"]) == {b"a": b"1", b"b": b"2"}


@run
async def test_what_is_answered_after_demoted_is_not() -> None:
    async with stage() as s:
        fake, task = await s.start()
        batch = await s.records(fake, b"x")
        s.tables[task]["counts"][b"a"] = b"1"
        pending = asyncio.create_task(s.tables.commit(batch))
        commit = await s.worker.commit()
        await s.worker.demote(fake)
        demoted = await s.event(pillion.Demoted)
        await s.worker.send(m.Stale(commit.message.id, fake.name, fake.epoch))
        assert await pending is None
        assert dict(s.tables[demoted.task]["counts"]) == {}


@run
async def test_a_store_that_fails_while_promoted_waits_is_not_ready() -> None:
    class Full(pillion.MemoryStore):
        def apply(self, batch: pillion.Batch) -> None:
            raise pillion.StoreError("the disk is full")

    class Stores:
        def open(self, task: pillion.Task, table: str) -> pillion.MemoryStore:
            return Full()

    async with stage() as s:
        s.tables = pillion.Tables(s.conn, Stores())
        fake = await s.worker.assign("words", role="standby")
        await s.event(pillion.Assigned)
        await s.worker.expect(m.Opened)
        await s.worker.restore(fake, "counts", [(b"a", b"1")])
        now = await s.worker.promote(fake)  # it is there before the rows are applied
        await s.event(pillion.Restore)
        await s.event(pillion.Promoted)
        error = await s.worker.expect(m.Error)
        assert (error.task, error.epoch) in ((fake.name, fake.epoch), (now.name, now.epoch))
        await s.worker.lose(now)
        await s.event(pillion.Lost)
