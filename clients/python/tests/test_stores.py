"""Stores: conformance, and what SQLite must survive."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pillion.client as pillion
from pillion.testing import store_conformance
from pillion.testing._conformance import (
    conformance_task,
    restore_batch,
    walk_while_changing,
)

TASK = conformance_task("s")


def test_memory_conforms() -> None:
    store_conformance(pillion.MemoryStores, durable=False)


def test_sqlite_conforms(tmp_path: Path) -> None:
    store_conformance(lambda: pillion.SqliteStores(tmp_path))


def test_rocks_conforms(tmp_path: Path) -> None:
    store_conformance(lambda: pillion.RocksStores(tmp_path))


def test_conformance_finds_a_store_that_loses_order(tmp_path: Path) -> None:
    class Wrong(pillion.MemoryStore):
        def apply(self, batch: pillion.Batch) -> None:
            for key, value in batch.items():
                if key is not None and value is not None:
                    self.rows[key] = value

    class WrongStores(pillion.MemoryStores):
        def open(self, task: pillion.Task, table: str) -> pillion.MemoryStore:
            return Wrong()

    with pytest.raises(AssertionError):
        store_conformance(WrongStores)


def items_live(rows: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    yield from rows.items()


def items_of_pages_that_meet(rows: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    for at in range(0, 3000, 100):
        first, last = b"%05d" % at, b"%05d" % (at + 100)
        yield from [row for row in sorted(rows.items()) if first <= row[0] <= last]


def items_by_position(rows: dict[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    for at in range(0, 3000, 100):
        yield from sorted(rows.items())[at : at + 100]


@pytest.mark.parametrize(
    ("walk", "broken"),
    [(items_live, "dictionary (changed size|keys changed)"),
     (items_of_pages_that_meet, "no row twice"),
     (items_by_position, "(no row twice|misses no row)")],
)  # fmt: skip
def test_conformance_finds_a_walk_that_goes_wrong_while_rows_change(
    walk: Callable[[dict[bytes, bytes]], Iterator[tuple[bytes, bytes]]], broken: str
) -> None:
    class Wrong(pillion.MemoryStore):
        def items(
            self, start: bytes | None = None, stop: bytes | None = None
        ) -> Iterator[tuple[bytes, bytes]]:
            return walk(self.rows)

    class WrongStores(pillion.MemoryStores):
        def open(self, task: pillion.Task, table: str) -> pillion.MemoryStore:
            return Wrong()

    with pytest.raises((AssertionError, RuntimeError), match=broken):
        walk_while_changing(WrongStores())


def test_a_damaged_file_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = b"not a database, but long enough to have a header" * 40
    stores = pillion.SqliteStores(tmp_path)
    path = stores.path(TASK, "t")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    store = stores.open(TASK, "t")
    assert store.checkpoint() is None
    store.close()
    assert path.with_name(path.name + ".bad-1").read_bytes() == content
    assert caplog.messages == [
        f"the store {path} is damaged (file is not a database); it is kept as "
        f"{path.name}.bad-1, and the table is restored from Kafka (store_open_failed)"
    ]


def test_a_foreign_database_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stores = pillion.SqliteStores(tmp_path)
    path = stores.path(TASK, "t")
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE precious (x)")
    db.close()
    stores.open(TASK, "t").close()
    assert "is not a table of this client" in caplog.text
    kept = sqlite3.connect(path.with_name(path.name + ".bad-1"))
    assert kept.execute("SELECT count(*) FROM precious").fetchone() == (0,)
    kept.close()


def test_rows_of_another_topic_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = pillion.SqliteStore(tmp_path / "f", "t one/0")
    store.apply_commit({b"a": b"1"}, "v1:1")
    store.close()
    other = pillion.SqliteStore(tmp_path / "f", "t two/0")
    assert (len(other), other.checkpoint()) == (0, None)
    other.close()
    assert (
        "holds 't one/0', not 't two/0' (each group needs its own directory); it is kept as f.bad-1"
        in caplog.text
    )


def test_damage_that_shows_later_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "f"
    store = pillion.SqliteStore(path, "t")
    store.apply_commit({b"%d" % i: bytes(500) for i in range(500)}, "v1:1")
    store.close()
    with path.open("r+b") as file:
        file.seek(16384)
        file.write(os.urandom(100_000))
    store = pillion.SqliteStore(path, "t")
    with pytest.raises(pillion.StoreCorrupt, match=r"is kept as f\.bad-1"):
        list(store.items())
    with pytest.raises(pillion.StoreError, match="is closed"):
        store.get(b"1")
    store.close()
    again = pillion.SqliteStore(path, "t")
    assert (len(again), again.checkpoint()) == (0, None)
    again.close()
    assert "is damaged" in caplog.text


def test_a_table_has_one_owner(tmp_path: Path) -> None:
    store = pillion.SqliteStore(tmp_path / "f", "t")
    with pytest.raises(pillion.StoreError, match="another process has it open") as caught:
        pillion.SqliteStore(tmp_path / "f", "t", 0.05)
    assert (caught.value.code, caught.value.retriable) == ("store_open_failed", True)
    store.close()
    pillion.SqliteStore(tmp_path / "f", "t").close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(pillion.StoreError, match="cannot be made"):
        pillion.SqliteStores(tmp_path / "file").open(TASK, "t")


def test_gathered_rows_are_written_when_there_are_many(tmp_path: Path) -> None:
    store = pillion.SqliteStore(tmp_path / "f", "t")
    for i in range(140):
        store.apply(restore_batch([(b"%d %d" % (i, n), b"v") for n in range(1000)], f"v1:{i}"))
    written = (tmp_path / "f").stat().st_size + (tmp_path / "f-wal").stat().st_size
    assert written > 131_000 * len(b"1 1v")
    assert len(store) == 140_000
    store.close()


def test_a_slow_write_does_not_end_the_gathering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush of a large table takes longer than the time that rows are gathered for."""
    now, written = [0.0], list[str | None]()
    monkeypatch.setattr("pillion.stores._sqlite.time.monotonic", lambda: now[0])
    store = pillion.SqliteStore(tmp_path / "f", "t")

    def slow(db: sqlite3.Connection, name: str, value: str | None) -> None:
        now[0] += 5.0
        written.append(value)

    monkeypatch.setattr("pillion.stores._sqlite._set_meta", slow)
    for n in range(10):
        now[0] += 0.3
        store.apply(restore_batch([(b"%d" % n, b"v")], f"v1:{n}"))
    assert written == ["v1:3", "v1:7"]
    store.close()


def test_another_thread_is_told_where_tables_are_read(tmp_path: Path) -> None:
    store = pillion.SqliteStores(tmp_path).open(TASK, "t")
    with ThreadPoolExecutor(1) as other, pytest.raises(pillion.UsageError, match="another thread"):
        other.submit(store.get, b"k").result()
    store.close()
