"""What every store must do, as one function that a third party's test calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from .._batch import Batch
from .._encode import encode
from .._frames import RESTORE, parse
from .._messages import TableStream
from .._tasks import Task
from ..stores import Store, Stores

Pair = tuple[bytes | None, bytes | None]


def store_conformance(stores: Callable[[], Stores], *, durable: bool = True) -> None:
    """Check a store. Raises AssertionError that names the broken promise.

    stores makes a new opener each time it is called, over the same place; the first opens find
    nothing there. durable says whether another opener finds what an earlier one wrote, as after a
    restart of the process.
    """
    for check in _CHECKS:
        check(stores())
    _reopen(stores, durable=durable)


def conformance_task(name: str, table: str = "t", partition: int = 0) -> Task:
    """Make a task with one changelog table."""
    tables = {table: TableStream(table, f"{name}-{table}-changelog", "changelog", 1)}
    return Task(f"{name}/{partition}", name, partition, "active", 1, tables, {}, {})


def restore_batch(
    pairs: Sequence[Pair], checkpoint: str = "", task: Task | None = None, table: str = "t"
) -> Batch:
    """Make a batch of a table's rows."""
    keys, values = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    data = encode(RESTORE, 1, 1, 0, len(pairs), keys, values, checkpoint=checkpoint)
    return Batch(parse(data), task or conformance_task("s"), "topic", table)


def _open(stores: Stores, name: str, table: str = "t", partition: int = 0) -> Store:
    return stores.open(conformance_task(name, table, partition), table)


def _holds(store: Store, rows: dict[bytes, bytes], checkpoint: str | None, what: str) -> None:
    assert dict(store.items()) == rows, f"{what}: items()"
    assert len(store) == len(rows), f"{what}: len()"
    assert store.checkpoint() == checkpoint, f"{what}: checkpoint()"
    for key, value in rows.items():
        assert store.get(key) == value, f"{what}: get({key!r})"


def _empty(stores: Stores) -> None:
    store = _open(stores, "empty")
    _holds(store, {}, None, "a new store is empty and has no checkpoint")
    assert store.get(b"k") is None, "a missing key is None"
    store.apply(restore_batch([], "v1:9"))
    _holds(store, {}, "v1:9", "a batch without records moves the checkpoint")
    store.close()
    store.close()


def _rows(stores: Stores) -> None:
    store = _open(stores, "rows")
    store.apply(restore_batch([(b"a", b"1"), (b"b", b"2")], "v1:2"))
    _holds(store, {b"a": b"1", b"b": b"2"}, "v1:2", "a batch sets rows and checkpoint")
    store.apply(restore_batch([(b"c", b"3")]))
    rows = {b"a": b"1", b"b": b"2", b"c": b"3"}
    _holds(store, rows, "v1:2", "a batch without a checkpoint keeps the one before")
    store.close()


def _order(stores: Stores) -> None:
    store = _open(stores, "order")
    store.apply(restore_batch([(b"a", b"1"), (b"a", b"2"), (b"a", b"3")], "v1:3"))
    _holds(store, {b"a": b"3"}, "v1:3", "the last record of a key wins")
    store.apply(restore_batch([(b"a", None), (b"a", b"4"), (b"b", b"1"), (b"b", None)], "v1:7"))
    _holds(store, {b"a": b"4"}, "v1:7", "a tombstone counts in its place in the batch")
    store.close()


def _nulls(stores: Stores) -> None:
    store = _open(stores, "nulls")
    store.apply(restore_batch([(b"", b""), (None, b"x"), (b"n", None), (None, None)], "v1:4"))
    _holds(store, {b"": b""}, "v1:4", "empty is not null, and null keys are passed over")
    store.apply(restore_batch([(b"", None)], "v1:5"))
    _holds(store, {}, "v1:5", "a tombstone removes the empty key")
    store.close()


def _commit(stores: Stores) -> None:
    store = _open(stores, "commit")
    store.apply(restore_batch([(b"a", b"1"), (b"b", b"2")], "v1:2"))
    store.apply_commit({b"a": b"9", b"b": None, b"c": b""}, "v1:5")
    _holds(store, {b"a": b"9", b"c": b""}, "v1:5", "a commit sets, removes, and has a checkpoint")
    store.close()


def _wipe(stores: Stores) -> None:
    store = _open(stores, "wipe")
    store.apply(restore_batch([(b"a", b"1")], "v1:1"))
    store.wipe()
    _holds(store, {}, None, "wipe leaves nothing")
    store.apply(restore_batch([(b"b", b"1")], "v1:2"))
    _holds(store, {b"b": b"1"}, "v1:2", "a wiped store goes on")
    store.close()


def _apart(stores: Stores) -> None:
    places = [("apart", "t", 0), ("apart", "t", 1), ("apart", "u", 0), ("apart/t", "t", 0)]
    opened = [_open(stores, *place) for place in places]
    for i, store in enumerate(opened):
        store.apply(restore_batch([(b"k", b"%d" % i)], f"v1:{i}"))
    for i, store in enumerate(opened):
        _holds(store, {b"k": b"%d" % i}, f"v1:{i}", "sets, tables and partitions are kept apart")
        store.close()


def _any_bytes(stores: Stores) -> None:
    store = _open(stores, "bytes ä/..\\:\0")
    rows = {bytes([i, 255 - i]): bytes(range(i)) for i in range(256)}
    store.apply(restore_batch(list(rows.items()), "v1:x"))
    _holds(store, rows, "v1:x", "keys and values may be any bytes")
    store.close()


def _ranges(stores: Stores) -> None:
    store = _open(stores, "ranges")
    keys = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"b\xff", b"\xff", b"\xff\xff"]
    store.apply(restore_batch([(key, b"v" + key) for key in reversed(keys)], "v1:1"))
    bounds = [None, *keys, b"aa", b"c", b"\xff\xff\xff"]
    for start in bounds:
        for stop in bounds:
            rows = list(store.items(start, stop))
            within = [
                (key, b"v" + key)
                for key in keys
                if (start is None or key >= start) and (stop is None or key < stop)
            ]
            found = rows if store.ordered else sorted(rows)
            order = "in order" if store.ordered else "in any order"
            assert found == within, f"items({start!r}, {stop!r}) gives start <= key < stop, {order}"
    store.close()


def walk_while_changing(stores: Stores) -> None:
    """A walk while commits, restored rows and removals land between its rows."""
    store = _open(stores, "changing")
    stay = {b"%05d" % i for i in range(0, 3000, 3)}
    store.apply(restore_batch([(key, b"0") for key in stay], "v1:0"))
    store.apply_commit({b"%05d" % i: b"0" for i in range(1, 3000, 3)}, "v1:1")
    seen: list[bytes] = []
    for n, (key, _) in enumerate(store.items()):
        seen.append(key)
        i = int(key)
        near: dict[bytes, bytes | None] = {
            b"%05d" % j: None if j % 3 == 1 else b"%d" % n
            for j in range(max(0, i - 3), min(3000, i + 4))
        }
        if n % 2:
            store.apply_commit(near, f"v1:c{n}")
        else:
            store.apply(restore_batch(list(near.items()), f"v1:r{n}"))
    assert len(seen) == len(set(seen)), "while a store changes, items() gives no row twice"
    assert stay <= set(seen), "while a store changes, items() misses no row that stays"
    assert not store.ordered or seen == sorted(seen), "while a store changes, items() keeps order"
    walk = store.items()
    next(walk)
    store.wipe()
    assert len(list(walk)) <= len(seen), "a walk ends after wipe()"
    store.close()


def _given_up(stores: Stores) -> None:
    store = _open(stores, "given up")
    rows = {b"%05d" % i: b"v" for i in range(5000)}
    store.apply_commit(rows, "v1:1")
    walks = [store.items() for _ in range(3)]
    for taken, walk in enumerate(walks):
        assert len(list(islice(walk, 40 * taken))) == 40 * taken
    store.apply_commit({b"00000": b"w"}, "v1:2")
    store.close()
    again = _open(stores, "given up")
    rows[b"00000"] = b"w"
    _holds(again, rows, "v1:2", "a walk that was given up holds nothing")
    again.close()
    del walks


def _reopen(stores: Callable[[], Stores], *, durable: bool) -> None:
    first = stores()
    for opener in _twice(first, stores() if durable else first):
        store = _open(opener, "reopen")
        store.apply(restore_batch([(b"a", b"1")], "v1:1"))
        store.apply_commit({b"b": b"2"}, "v1:2")
        store.close()
        again = _open(stores() if durable else first, "reopen")
        what = "a store that was closed is found again"
        _holds(again, {b"a": b"1", b"b": b"2"}, "v1:2", what)
        again.wipe()
        again.close()


def _twice(*openers: Stores) -> Iterator[Stores]:
    yield from openers


_CHECKS = (
    _empty, _rows, _order, _nulls, _commit, _wipe, _apart, _any_bytes, _ranges,
    walk_while_changing, _given_up,
)  # fmt: skip
