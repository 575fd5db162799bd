"""Typed tables: they behave like dicts, and what is changed in place is not lost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion import SerdeError, UsageError
from pillion._tables import TableView
from pillion.serdes import serde_of
from pillion.stores import MemoryStore
from pillion.worker._declared import SourceTable, Table
from pillion.worker._rows import ReadRows, Rows


@dataclass
class Stats:
    flights: int = 0
    delays: list[int] = field(default_factory=list[int])


def table(key: Any = str, value: Any = int, default: Callable[[], Any] | None = None) -> Any:
    return Table(
        "t",
        serde_of(key, key=True, where="k"),
        serde_of(value, key=False, where="v"),
        default,
        "",
    )


def view(**stored: bytes) -> TableView:
    store = MemoryStore()
    store.apply_commit({key.encode(): value for key, value in stored.items()}, "v1:1")
    return TableView("t", store, writable=True)


def unit(rows: Rows[Any, Any]) -> dict[bytes, bytes | None]:
    """End the unit well, and give what it has written."""
    rows.settle()
    written = dict(rows.changes)
    rows.keep()
    return written


def test_a_read_asks_the_store_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    get = MemoryStore.get

    def watched(self: MemoryStore, key: bytes) -> bytes | None:
        asked.append(key)
        return get(self, key)

    monkeypatch.setattr(MemoryStore, "get", watched)
    for value in (int, list[int]):  # what cannot be changed in place, and what can
        asked.clear()
        rows: Rows[str, Any] = Rows(table(value=value, default=value), view())
        assert rows["missing"] == value()
        assert asked == [b"missing"]


def test_many_rows_at_once_are_bytes_or_refused() -> None:
    found = view(a=b"1")
    for rows in ({b"b": b"2", b"c": 3}, {b"b": b"2", "c": b"3"}, {b"b": b"2", None: b"3"}):
        with pytest.raises(UsageError, match="takes bytes"):
            found.write_all(rows)  # type: ignore[arg-type]
    found.write_all({b"a": None, b"b": b"2"})
    assert dict(found) == {b"b": b"2"}


def test_a_row_that_is_removed_during_a_walk_does_not_come_back() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int]), view(a=b"[1]", b=b"[2]", c=b"[3]"))
    seen: list[str] = []
    for key, value in rows.items():
        seen.append(key)
        value.append(0)
        for other in {"a", "b", "c"} - {key}:
            rows.pop(other, None)
    assert len(seen) == 1
    assert list(rows) == seen
    assert len(unit(rows)) == 3
    assert list(rows) == seen


def test_a_walk_sees_what_was_written_meanwhile() -> None:
    rows: Rows[str, int] = Rows(table(), view(a=bytes(8), b=bytes(8)))
    found: list[int] = []
    for _, value in rows.items():
        found.append(value)
        rows["a"] = rows["b"] = 7
    assert found == [0, 7]


def test_a_value_changed_in_place_is_written() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int]), view(a=b"[1]"))
    rows["a"].append(2)
    assert rows["a"] == [1, 2]
    assert unit(rows) == {b"a": b"[1,2]"}
    rows["a"].append(3)
    assert unit(rows) == {b"a": b"[1,2,3]"}
    assert unit(rows) == {}


def test_a_value_changed_after_it_was_assigned_is_written() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int]), view())
    mine = [1]
    rows["a"] = mine
    mine.append(2)
    assert rows["a"] is mine
    assert unit(rows) == {b"a": b"[1,2]"}


def test_a_value_changed_in_an_iteration_is_written() -> None:
    rows: Rows[str, Stats] = Rows(
        table(value=Stats), view(a=b'{"flights":1,"delays":[]}', b=b'{"flights":2,"delays":[]}')
    )
    for stats in rows.values():
        stats.delays.append(7)
    for _, stats in rows.items():
        stats.flights += 1
    assert unit(rows) == {
        b"a": b'{"flights":2,"delays":[7]}',
        b"b": b'{"flights":3,"delays":[7]}',
    }


def test_a_value_that_was_only_read_is_not_written() -> None:
    # Another program has spelled it otherwise.
    rows: Rows[str, Stats] = Rows(table(value=Stats), view(a=b'{ "delays": [], "flights": 1 }'))
    assert rows["a"].flights == 1
    assert unit(rows) == {}
    rows["a"].flights = 2
    assert unit(rows) == {b"a": b'{"flights":2,"delays":[]}'}
    rows["a"].flights = 3
    rows["a"].flights = 2
    assert unit(rows) == {}


def test_a_default_becomes_a_row_when_it_changes() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int], default=list), view())
    assert rows["a"] == []
    assert "a" not in rows
    assert rows.get("a") is None
    assert list(rows) == []
    assert unit(rows) == {}
    rows["a"].append(1)
    assert "a" in rows
    assert rows.get("a") == [1]
    assert dict(rows) == {"a": [1]}
    rows["a"].append(2)
    assert unit(rows) == {b"a": b"[1,2]"}


def test_a_default_of_a_fixed_type_becomes_a_row_when_assigned() -> None:
    rows: Rows[str, int] = Rows(table(default=int), view())
    assert rows["a"] == 0
    assert unit(rows) == {}
    rows["a"] += 1
    assert unit(rows) == {b"a": b"\0\0\0\0\0\0\0\1"}


def test_undo_leaves_nothing() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int], default=list), view(a=b"[1]"))
    rows["a"].append(2)
    rows["b"].append(3)
    rows["c"] = [4]
    rows.settle()
    rows.undo()
    assert dict(rows) == {"a": [1]}
    assert rows["b"] == []
    assert unit(rows) == {}


def test_removing() -> None:
    rows: Rows[str, list[int]] = Rows(table(value=list[int]), view(a=b"[1]", b=b"[2]", c=b"[]"))
    rows["a"].append(5)
    del rows["a"]
    assert rows.pop("b") == [2]
    assert rows.pop("b", None) is None
    with pytest.raises(KeyError):
        rows.pop("b")
    with pytest.raises(KeyError):
        del rows["a"]
    with pytest.raises(KeyError):
        rows["a"]
    assert dict(rows) == {"c": []}
    rows.clear()
    assert len(rows) == 0
    assert unit(rows) == {b"a": None, b"b": None, b"c": None}


def test_none_is_no_value() -> None:
    rows: Rows[str, Any] = Rows(table(value=dict), view())
    with pytest.raises(UsageError, match="del removes a row"):
        rows["a"] = None


def test_no_row_has_no_key() -> None:
    keys, values = serde_of(str, key=True, where="k"), serde_of(int, key=False, where="v")
    read: ReadRows[Any, int] = ReadRows(SourceTable("s", keys, values, "s"), lambda: [view()])
    for rows in (Rows[Any, int](table(), view()), read):
        assert None not in rows
        assert rows.get(None) is None
        assert rows.get(None, 7) == 7
        with pytest.raises(SerdeError, match="None cannot be a key of table"):
            rows[None]


def test_what_cannot_be_written_names_the_table() -> None:
    rows: Rows[Any, Any] = Rows(table(), view(a=b"xy"))
    with pytest.raises(SerdeError, match="the value of b'a' in table 't' cannot be written"):
        rows["a"] = "text"
    with pytest.raises(SerdeError, match="7 cannot be a key of table 't'"):
        rows[7] = 1
    with pytest.raises(SerdeError, match="the row b'a' of table 't' does not decode"):
        rows["a"]


class Broken:
    """A serde of a user, which raises what it likes."""

    def encode(self, value: str, /) -> bytes:
        raise KeyError(value)

    def decode(self, data: bytes, /) -> str:
        raise ValueError


def test_what_a_serde_of_the_user_raises_is_named() -> None:
    rows: Rows[Any, Any] = Rows(table(value=Broken()), view(a=b"xy"))
    with pytest.raises(SerdeError, match="in table 't' cannot be written: KeyError: 'text'"):
        rows["a"] = "text"
    with pytest.raises(SerdeError, match=r"of table 't' does not decode: ValueError \(serde\)$"):
        rows["a"]


def test_read_only_rows() -> None:
    keys, values = serde_of(str, key=True, where="k"), serde_of(int, key=False, where="v")
    source = SourceTable("s", keys, values, "s")
    parts = [view(a=b"\0" * 8), view(b=b"\0\0\0\0\0\0\0\2")]
    rows: ReadRows[str, int] = ReadRows(source, lambda: parts)
    assert (rows["a"], rows["b"], rows.get("c")) == (0, 2, None)
    assert ("b" in rows, "c" in rows) == (True, False)
    assert (dict(rows), len(rows)) == ({"a": 0, "b": 2}, 2)
    assert list(rows.items()) == [("a", 0), ("b", 2)]
    with pytest.raises(KeyError):
        rows["c"]
    with pytest.raises(UsageError, match="table 's' is read-only here"):
        rows["a"] = 1
    with pytest.raises(UsageError, match="table 's' is read-only here"):
        del rows["a"]


KEYS = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.lists(st.integers(0, 3), max_size=2)),
        st.tuples(st.just("append"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("del"), KEYS),
        st.tuples(st.just("pop"), KEYS),
        st.tuples(st.just("setdefault"), KEYS, st.lists(st.integers(0, 3), max_size=1)),
        st.tuples(st.just("read"), KEYS),
        st.tuples(st.just("keep")),
        st.tuples(st.just("undo")),
    ),
    max_size=30,
)


@settings(max_examples=400)
@given(STEPS)
def test_like_a_dict(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is done in whatever units, it is what a dict would be, and so are the bytes."""
    under = view()
    rows: Rows[str, list[int]] = Rows(table(value=list[int]), under)
    model: dict[str, list[int]] = {}
    kept: dict[str, list[int]] = {}
    for step in steps:
        _one(rows, model, step)
        if step[0] == "keep":
            unit(rows)
            kept = copy.deepcopy(model)
        elif step[0] == "undo":
            rows.undo()
            model = copy.deepcopy(kept)
        assert dict(rows) == model
        assert {key: rows.get(key) for key in "abc"} == {key: model.get(key) for key in "abc"}
    unit(rows)
    assert {key.decode(): eval(value) for key, value in under.scan()} == model


def _one(rows: Any, model: Any, step: tuple[Any, ...]) -> None:
    match step:
        case ("set", key, value):
            rows[key] = list(value)
            model[key] = list(value)
        case ("append", key, value) if key in model:
            rows[key].append(value)
            model[key].append(value)
        case ("del", key) if key in model:
            del rows[key]
            del model[key]
        case ("pop", key):
            assert rows.pop(key, None) == model.pop(key, None)
        case ("setdefault", key, value):
            assert rows.setdefault(key, list(value)) == model.setdefault(key, list(value))
        case ("read", key) if key in model:
            assert rows[key] is rows[key]
        case _:
            pass
