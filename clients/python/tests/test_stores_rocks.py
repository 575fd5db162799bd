"""What RocksDB must survive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rocksdict

import pillion.client as pillion
from pillion.testing._conformance import conformance_task, restore_batch

TASK = conformance_task("s")


def test_without_the_package_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(pillion.UsageError, match=r"pip install 'pillion\[rocksdb\]'"):
        pillion.RocksStores(tmp_path)


def test_a_file_in_its_place_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stores = pillion.RocksStores(tmp_path)
    path = stores.path(TASK, "t")
    assert path.name == "t.0.rocks"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"precious")
    store = stores.open(TASK, "t")
    assert (len(store), store.checkpoint()) == (0, None)
    store.close()
    assert path.with_name("t.0.rocks.bad-1").read_bytes() == b"precious"
    assert "is not a table of this client; it is kept as t.0.rocks.bad-1" in caplog.text


@pytest.mark.parametrize("families", [False, True])
def test_a_foreign_database_is_set_aside(
    families: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    db = rocksdict.Rdict(str(tmp_path / "f"), options)
    db[b"precious"] = b"1"
    if families:
        db.create_column_family("more", rocksdict.Options(raw_mode=True)).close()
    db.close()
    store = pillion.RocksStore(tmp_path / "f", "t")
    assert (len(store), store.checkpoint()) == (0, None)
    store.close()
    assert (tmp_path / "f.bad-1").is_dir()
    assert "is not a table of this client" in caplog.text


def test_rows_of_another_topic_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = pillion.RocksStore(tmp_path / "f", "t one/0")
    store.apply_commit({b"a": b"1"}, "v1:1")
    store.close()
    other = pillion.RocksStore(tmp_path / "f", "t two/0")
    assert (len(other), other.checkpoint()) == (0, None)
    other.close()
    assert (
        "holds 't one/0', not 't two/0' (each group needs its own directory); it is kept as f.bad-1"
        in caplog.text
    )


@pytest.mark.parametrize("what", ["CURRENT", "MANIFEST", ".sst"])
def test_a_damaged_directory_is_set_aside(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "f"
    store = pillion.RocksStore(path, "t")
    store.apply_commit({b"%d" % i: os.urandom(500) for i in range(500)}, "v1:1")
    store.close()
    for file in path.iterdir():
        if what in file.name:
            file.write_bytes(os.urandom(file.stat().st_size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pillion.stores._rocks.POLL", 0.0)
        store = pillion.RocksStore(path, "t")
        if what == ".sst" and store.checkpoint() is not None:
            with pytest.raises(pillion.StoreCorrupt, match=r"is kept as f\.bad-1"):
                list(store.items())
            with pytest.raises(pillion.StoreError, match="is closed"):
                store.get(b"1")
            store.close()
            store = pillion.RocksStore(path, "t")
    assert (len(store), store.checkpoint()) == (0, None)
    store.close()
    assert "is damaged" in caplog.text


def test_another_process_has_it(tmp_path: Path) -> None:
    program = """
import sys
import pillion.client as pillion
store = pillion.RocksStore(sys.argv[1], "t")
store.apply_commit({b"a": b"1"}, "v1:1")
print("open", flush=True)
sys.stdin.read()
store.close()
"""
    command = [sys.executable, "-c", program, str(tmp_path / "f")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "open\n"
        with pytest.raises(pillion.StoreBusy, match="another process has it open") as caught:
            pillion.RocksStore(tmp_path / "f", "t", 0.05)
        assert (caught.value.code, caught.value.retriable) == ("store_open_failed", True)
        child.stdin.close()
        # It waits for the other one to let go.
        store = pillion.RocksStore(tmp_path / "f", "t", 30)
    assert store.get(b"a") == b"1"
    store.close()


def test_a_wiped_table_does_not_come_back(tmp_path: Path) -> None:
    store = pillion.RocksStore(tmp_path / "f", "t")
    for n in range(3):
        rows = [(b"%d" % i, b"%d" % n) for i in range(1000)]
        store.apply(restore_batch([*rows, (b"\xff" * 9, b"last"), (b"", b"first")], f"v1:{n}"))
        store.wipe()
        store.close()
        store = pillion.RocksStore(tmp_path / "f", "t")
        assert (list(store.items()), store.checkpoint()) == ([], None)
    store.close()
