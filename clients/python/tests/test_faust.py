"""What real Faust workers wrote (tests/data/README.md) is read here, and written byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from faust_data import DATA, Line, Point, count_zoo, events, fold, zoo
from pillion import faust
from pillion.errors import SerdeError, UsageError
from pillion.faust import Windowed
from pillion.serdes import Serde

BOTH = pytest.mark.parametrize("app", ["zoo", "zoo-orjson"])


@BOTH
def test_every_key_and_value_is_read_and_written_byte_for_byte(app: str) -> None:
    for name, (keys, values, expected) in zoo(app).items():
        rows = fold(events(f"{app}-{name}-changelog"))
        # repr: True, 1 and 1.0 are not the same here, nor are 0.0 and -0.0
        assert repr([(keys.decode(k), values.decode(v)) for k, v in rows.items()]) == repr(expected)
        assert [(keys.encode(k), values.encode(v)) for k, v in expected] == list(rows.items())


@BOTH
@pytest.mark.parametrize(
    ("table", "window"),
    [
        ("tumbling", faust.TumblingWindow(60)),
        ("hopping", faust.HoppingWindow(10, 5)),
        ("uneven", faust.HoppingWindow(10, 4)),
    ],
)
def test_a_windowed_table_is_counted_as_faust_counts(
    app: str, table: str, window: faust.HoppingWindow
) -> None:
    keys, counts, _ = zoo(app)[table]
    written: list[tuple[int, bytes, bytes | None]] = []

    def write(partition: int, key: Windowed[Any], value: int | None) -> None:
        data = None if value is None else counts.encode(value)
        written.append((partition, keys.encode(key), data))

    count_zoo(window, write)
    found = events(f"{app}-{table}-changelog")
    assert written == [(each.partition, each.key, each.value) for each in found]


def test_windows_are_faust_s() -> None:
    for case in DATA["windows"]:
        window = faust.HoppingWindow(case["size"], case["step"])
        now: int = case["timestamp"]
        assert [[w.start, w.end] for w in window.ranges("k", now)] == case["ranges"], case
        current, before = window.current("k", now), window.delta("k", now, 90)
        assert [current.start, current.end] == case["current"], case
        assert [before.start, before.end] == case["delta(90)"], case


@pytest.mark.parametrize(
    "make",
    [
        lambda: faust.HoppingWindow(10, 0),
        lambda: faust.HoppingWindow(10, 2.5),  # type: ignore[arg-type]
        lambda: faust.TumblingWindow(0),
        lambda: faust.json(str, namespace="module.Record"),
        lambda: faust.json(bytes),
    ],
)
def test_what_faust_does_not_have_is_refused(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


def test_a_record_without_a_timestamp_is_in_no_window() -> None:
    with pytest.raises(ValueError, match="timestamp"):
        faust.TumblingWindow(60).current("k", None)


@BOTH
def test_metadata_of_records_is_dropped(app: str) -> None:
    found = fold(events(f"{app}-lines-changelog"))[b'"l"']
    assert found.count(b"__faust") == 3
    line = Line("l", (Point(1, "a"), Point(2, "b")))
    assert faust.json(Line).decode(found) == line
    plain = {"name": "l", "points": [{"x": 1, "s": "a"}, {"x": 2, "s": "b"}]}
    assert faust.json().decode(found) == plain
    assert faust.json(Line).encode(line) == faust.json().encode(plain)
    assert faust.json(dict[str, int]).decode(b'{"__faust": {"ns": "m.R"}, "x": 1}') == {"x": 1}


@pytest.mark.parametrize(
    "text",
    [
        'x,"__faust":{"ns":"m.R"}',
        '"__faust":{"ns":"m.R"},',
        '\\"__faust":{"ns":"m.R"}',
        ',"__faust":{"ns":"',
    ],
)
@pytest.mark.parametrize("orjson", [False, True])
def test_text_that_looks_like_metadata_or_a_number_stays(text: str, orjson: bool) -> None:
    serde = faust.json(orjson=orjson)
    for value in (text, {text: text}, [text, 1e-7, f"{text} 1e-07"]):
        assert serde.decode(serde.encode(value)) == value


def test_small_floats_are_orjson_s() -> None:
    serde = faust.json(list[float], orjson=True)
    floats = [1e-4, 1e-5, -1.5e-5, 9.99e-5, 1e-6, -1.25e-6, 1.5e-9, 1e-10, 5e-324, 1e16]
    expected = b"[0.0001,0.00001,-0.000015,0.0000999,1e-6,-1.25e-6,1.5e-9,1e-10,5e-324,1e+16]"
    assert serde.encode(floats) == expected
    assert serde.decode(expected) == floats


def test_none_is_a_value_where_the_type_says_so() -> None:
    serde = faust.json(int | None)
    assert (serde.decode(b"null"), serde.decode(b"5")) == (None, 5)
    assert (serde.encode(None), serde.encode(5)) == (b"null", b"5")
    with pytest.raises(SerdeError, match="null"):
        faust.json(int).decode(b"null")


def test_values_that_faust_s_records_may_have() -> None:
    serde = faust.json(tuple[datetime, UUID, Decimal])
    value = (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), UUID(int=1), Decimal("1.50"))
    data = b'["2026-01-02T03:04:05.000006Z","00000000-0000-0000-0000-000000000001","1.50"]'
    assert (serde.encode(value), serde.decode(data)) == (data, value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (faust.windowed(str), b'"k"'),
        (faust.windowed(str), b'["k",[1.0]]'),
        (faust.windowed(str), b'["k",[1.0,"x"]]'),
        (faust.windowed(str), b"[5,[1.0,1.9]]"),
        (faust.windowed(str), b"\xff"),
        (faust.key(str), b"5"),
        (faust.json(), b"{"),
    ],
)
def test_what_faust_did_not_write_is_refused_in_words(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(SerdeError):
        serde.decode(data)


@pytest.mark.parametrize("value", [float("nan"), object(), {1: 2}, b"x"])
def test_what_could_not_be_read_again_is_not_written(value: object) -> None:
    with pytest.raises(SerdeError):
        faust.json().encode(value)


@pytest.mark.parametrize(
    ("serde", "data", "words"),
    [
        (faust.key(str), '"zoë"'.encode(), "with orjson=True"),
        (faust.key(str, orjson=True), b'"zo\\u00eb"', "without orjson=True"),
        (faust.windowed(str), '["zoë",[1.0,1.9]]'.encode(), "with orjson=True"),
        (faust.windowed(str), b'["k",[1,1.9]]', "another row"),
        (faust.key(Point), b'{"x":3,"s":"k","__faust":{"ns":"m.Point"}}', "namespace"),
        (faust.key(float), b"1", "another row"),
        (faust.key(float), b"1e-5", "another row"),
    ],
)
def test_a_key_that_would_be_written_as_another_row_is_refused(
    serde: Serde[Any], data: bytes, words: str
) -> None:
    with pytest.raises(SerdeError, match=words):
        serde.decode(data)


def test_immutable_types_need_no_check_at_commit() -> None:
    serdes: list[Any] = [faust.json(str), faust.key(Point), faust.windowed(str), faust.raw]
    assert [serde.mutable for serde in serdes] == [False] * 4
    serdes = [faust.json(), faust.json(list[int])]
    assert [serde.mutable for serde in serdes] == [True] * 2
