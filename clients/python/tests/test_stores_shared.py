"""What the stores that live in files have in common: owners, copies, random use, crashes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pillion.client as pillion
from pillion.stores._files import safe_name
from pillion.testing._conformance import conformance_task, restore_batch

TASK = conformance_task("s")
Opener = pillion.SqliteStores | pillion.RocksStores
KINDS = [pillion.SqliteStores, pillion.RocksStores]
both = pytest.mark.parametrize("kind", KINDS)


@both
def test_workers_share_a_directory(
    kind: Callable[[Path], Opener], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An active and a copy of its table: each has its own; the newest free one is found again."""
    monkeypatch.setattr("pillion.stores._files.OPEN_WITHIN", 0.05)
    stores = kind(tmp_path)
    active = stores.open(TASK, "t")
    copy = stores.open(TASK, "t")
    assert (active.path, copy.path) == (stores.path(TASK, "t"), stores.path(TASK, "t", 2))
    active.apply_commit({b"k": b"old"}, "v1:old")
    active.close()
    copy.apply_commit({b"k": b"new"}, "v1:new")
    copy.close()
    for path in (active.path, *(active.path.iterdir() if active.path.is_dir() else ())):
        os.utime(path, (1, 1))
    again = stores.open(TASK, "t")
    assert (again.path, again.checkpoint()) == (copy.path, "v1:new")
    other = stores.open(TASK, "t")
    assert (other.path, other.checkpoint()) == (active.path, "v1:old")
    again.close()
    other.close()


@both
def test_a_closed_store_says_so(kind: Callable[[Path], Opener], tmp_path: Path) -> None:
    store = kind(tmp_path).open(TASK, "t")
    store.apply_commit({b"%d" % i: b"v" for i in range(100)}, "v1:1")
    walk = store.items()
    next(walk)
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.get(b"1"),
        lambda: list(walk),
        lambda: len(store),
        lambda: store.apply_commit({b"a": b""}, "v1:2"),
        store.wipe,
    ]
    for use in uses:
        with pytest.raises(pillion.StoreError, match="is closed"):
            use()


KEYS = st.binary(max_size=2)
ROWS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=3)), max_size=6)
STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "commit"]), ROWS)
    | st.tuples(st.sampled_from(["wipe", "reopen", "flush"]), st.just([])),
    max_size=12,
)


@both
@settings(max_examples=25)
@given(steps=STEPS, start=st.none() | KEYS, stop=st.none() | KEYS)
def test_a_store_is_a_sorted_dict(
    kind: Callable[[Path], Opener],
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[tuple[bytes, bytes | None]]]],
    start: bytes | None,
    stop: bytes | None,
) -> None:
    root = tmp_path_factory.mktemp("model")
    stores, model = kind(root), dict[bytes, bytes]()
    checkpoint: str | None = None
    store = stores.open(TASK, "t")
    for n, (step, rows) in enumerate(steps):
        match step:
            case "apply":
                checkpoint = f"v1:{n}"
                store.apply(restore_batch(rows, checkpoint))
            case "commit":
                checkpoint = f"v1:{n}"
                store.apply_commit(dict(rows), checkpoint)
            case "wipe":
                checkpoint = None
                model.clear()
                store.wipe()
            case "flush":
                store.flush()
            case _:
                store.close()
                store = stores.open(TASK, "t")
        for key, value in rows:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        assert store.checkpoint() == checkpoint
        assert all(store.get(key) == model.get(key) for key, _ in rows)
    assert len(store) == len(model)
    assert list(store.items(start, stop)) == sorted(
        (key, value)
        for key, value in model.items()
        if (start is None or key >= start) and (stop is None or key < stop)
    )
    store.close()
    shutil.rmtree(root)


CRASH = """
import sys
from pathlib import Path
import pillion.client as pillion
from pillion.testing._conformance import conformance_task, restore_batch
kind, root, how, first = sys.argv[1:]
store = getattr(pillion, kind)(Path(root)).open(conformance_task("s"), "t")
for n in range(int(first), 1_000_000):
    rows = {b"%d" % i: b"%d" % n for i in range(200)}
    if how == "commit":
        store.apply_commit(rows, f"v1:{n}")
    else:
        store.apply(restore_batch(list(rows.items()), f"v1:{n}"))
        if n % 3 == 0:
            store.flush()
    print(n if how == "commit" or n % 3 == 0 else 0, flush=True)
"""


@both
@pytest.mark.parametrize("how", ["commit", "restore"])
def test_a_killed_process_leaves_rows_and_checkpoint_together(
    kind: type[Opener], how: str, tmp_path: Path
) -> None:
    """INVARIANT: the checkpoint is never newer than the rows; what was flushed is there."""
    last = 0
    for round_ in range(4):
        command = [sys.executable, "-c", CRASH, kind.__name__, str(tmp_path), how, str(last + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for _ in range(7 + 10 * round_):
                last = max(last, int(child.stdout.readline()))
            child.kill()  # SIGKILL, somewhere in what follows
            last = max([last, *(int(line) for line in child.stdout.read().split("\n")[:-1])])
        store = kind(tmp_path).open(TASK, "t")
        assert not store.path.with_name(store.path.name + ".bad-1").exists()
        checkpoint = store.checkpoint()
        assert checkpoint is not None
        reached = int(checkpoint.removeprefix("v1:"))
        assert reached >= last
        assert {value for _, value in store.items()} == {b"%d" % reached}
        assert len(store) == 200
        store.close()
        last = reached


DIE_AT = """
import os, signal, sys
from pathlib import Path
import pillion.client as pillion
from pillion.testing._conformance import conformance_task
kind, root, last = sys.argv[1:]
store = getattr(pillion, kind)(Path(root)).open(conformance_task("s"), "t")
store.apply_commit({b"a": b"1", b"b": b"1", b"c": b"1"}, "v1:1")
steps = 0
def step(_=None):
    global steps
    steps += 1
    if steps == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
class Watched:
    def __init__(self, db):
        self.db = db
    def write(self, changes):
        step()
        self.db.write(changes)
        step()
if kind == "SqliteStores":
    store._db.set_trace_callback(step)
else:
    store._db = Watched(store._db)
store.apply_commit({b"a": b"2", b"b": None, b"d": b"2"}, "v1:2")
step()
print("lived")
"""
BEFORE = ({b"a": b"1", b"b": b"1", b"c": b"1"}, "v1:1")
AFTER = ({b"a": b"2", b"c": b"1", b"d": b"2"}, "v1:2")


@both
def test_a_process_that_dies_at_any_step_of_a_commit(kind: type[Opener], tmp_path: Path) -> None:
    """INVARIANT: rows and checkpoint change together."""
    found: list[tuple[dict[bytes, bytes], str | None]] = []
    for step in range(1, 50):
        root = tmp_path / str(step)
        command = [sys.executable, "-c", DIE_AT, kind.__name__, str(root), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout == "lived\n":
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        store = kind(root).open(TASK, "t")
        found.append((dict(store.items()), store.checkpoint()))
        store.close()
    assert len(found) >= 3
    assert found == sorted(found, key=lambda state: state[1] or "")
    assert found[0] == BEFORE
    assert found[-1] == AFTER
    assert all(state in (BEFORE, AFTER) for state in found)


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
