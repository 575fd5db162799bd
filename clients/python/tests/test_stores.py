"""Stores: conformance, and what SQLite must survive."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import pillion.client as pillion
from pillion.stores._sqlite import safe_name
from pillion.testing import store_conformance
from pillion.testing._conformance import conformance_task, restore_batch

TASK = conformance_task("s")


def test_memory_conforms() -> None:
    store_conformance(pillion.MemoryStores, durable=False)


def test_sqlite_conforms(tmp_path: Path) -> None:
    store_conformance(lambda: pillion.SqliteStores(tmp_path))


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


def test_a_table_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pillion.stores._sqlite.OPEN_WITHIN", 0.05)
    store = pillion.SqliteStore(tmp_path / "f", "t")
    with pytest.raises(pillion.StoreError, match="another process has it open") as caught:
        pillion.SqliteStore(tmp_path / "f", "t")
    assert (caught.value.code, caught.value.retriable) == ("store_open_failed", True)
    store.close()
    pillion.SqliteStore(tmp_path / "f", "t").close()


def test_workers_share_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An active and a copy of its table: each has a file; the newest free one is found again."""
    monkeypatch.setattr("pillion.stores._sqlite.OPEN_WITHIN", 0.05)
    stores = pillion.SqliteStores(tmp_path)
    active = stores.open(TASK, "t")
    copy = stores.open(TASK, "t")
    assert active.path != copy.path
    active.apply_commit({b"k": b"old"}, "v1:old")
    active.close()
    copy.apply_commit({b"k": b"new"}, "v1:new")
    copy.close()
    os.utime(active.path, (1, 1))
    again = stores.open(TASK, "t")
    assert (again.path, again.checkpoint()) == (copy.path, "v1:new")
    other = stores.open(TASK, "t")
    assert (other.path, other.checkpoint()) == (active.path, "v1:old")
    again.close()
    other.close()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(pillion.StoreError, match="cannot be made"):
        pillion.SqliteStores(tmp_path / "file").open(TASK, "t")


def test_a_crash_leaves_rows_and_checkpoint_together(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
import pillion.client as pillion
from pillion.testing._conformance import restore_batch
store = pillion.SqliteStore({str(tmp_path / "f")!r}, "t")
store.apply_commit({{b"a": b"1"}}, "v1:1")
store.apply(restore_batch([(b"b", b"2")], "v1:2"))
assert store.get(b"b") == b"2" and store.checkpoint() == "v1:2"
print("applied", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "applied\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    store = pillion.SqliteStore(tmp_path / "f", "t")
    rows, checkpoint = dict(store.items()), store.checkpoint()
    assert rows[b"a"] == b"1"
    assert checkpoint == ("v1:2" if b"b" in rows else "v1:1")
    store.close()


def test_gathered_rows_are_written_when_there_are_many(tmp_path: Path) -> None:
    store = pillion.SqliteStore(tmp_path / "f", "t")
    for i in range(40):
        store.apply(restore_batch([(b"%d %d" % (i, n), b"v") for n in range(1000)], f"v1:{i}"))
    reader = sqlite3.connect(f"file:{tmp_path / 'f'}?mode=ro", uri=True)
    reader.close()
    assert len(store) == 40_000
    store.close()


@pytest.mark.parametrize(
    ("name", "safe"),
    [("plane_stats-1", "plane_stats-1"), ("a.b", "a.b"), (".", "%2E"), ("..", "%2E."), ("", "%"),
     ("a/b", "a%2Fb"), ("ä", "%C3%A4"), ("%", "%25"), ("a\0", "a%00"), ("..\\x", "%2E.%5Cx")],
)  # fmt: skip
def test_safe_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_safe_names_of_long_names_differ() -> None:
    names = {safe_name("x" * 300 + str(i)) for i in range(10)}
    assert len(names) == 10
    assert max(map(len, names)) <= 120
