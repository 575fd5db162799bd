"""Frames and batches: round trips, and nothing but FrameError for hostile bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion._batch import Batch
from pillion._encode import cut, encode, writes
from pillion._frames import RECORDS, RESTORE, WRITES, parse
from pillion._tasks import Task
from pillion.client import CommitRejected, FrameError, Record

TASK = Task("t/3", "t", 3, "active", 1, {}, {}, {})
PART = st.none() | st.binary(max_size=12)
HEADERS = st.lists(st.tuples(st.text(max_size=5), PART), max_size=3)
ROWS = st.lists(st.tuples(PART, PART), max_size=40)


def batch(data: bytes) -> Batch:
    return Batch(parse(data), TASK, "topic", "topic")


@given(rows=ROWS, base=st.integers(0, 1 << 52), data=st.data())
def test_round_trip(rows: list[tuple[Any, Any]], base: int, data: st.DataObject) -> None:
    n = len(rows)
    stamps = data.draw(st.none() | st.lists(st.integers(-1, 1 << 62), min_size=n, max_size=n))
    headers = data.draw(st.none() | st.lists(HEADERS, min_size=n, max_size=n))
    spread = st.lists(st.integers(0, 1 << 30), min_size=n, max_size=n, unique=True)
    deltas = data.draw(st.none() | spread)
    offsets = None if deltas is None else [base + delta for delta in sorted(deltas)]
    end = (offsets[-1] + 1 if offsets else base + n) + data.draw(st.integers(0, 9))
    frame = encode(
        RESTORE, 7, 8, base, end, [k for k, _ in rows], [v for _, v in rows],
        timestamps=stamps, headers=headers, offsets=offsets, checkpoint="v1:x",
    )  # fmt: skip
    got = batch(frame)
    assert list(got.items()) == rows
    assert (got.base_offset, got.next_offset, got.checkpoint, len(got)) == (base, end, "v1:x", n)
    assert list(got.offsets) == (offsets or list(range(base, base + n)))
    assert got.timestamps == (tuple(stamps) if stamps else None)
    assert [got.headers(i) for i in range(n)] == (headers or [[]] * n)
    assert [(row.key, row.value) for row in got.rows()] == rows


@given(rows=ROWS, before=st.dictionaries(st.binary(max_size=2), st.binary(max_size=2)))
def test_apply_to_is_record_after_record(
    rows: list[tuple[Any, Any]], before: dict[bytes, bytes]
) -> None:
    model = dict(before)
    for key, value in rows:
        if key is not None and value is not None:
            model[key] = value
        elif key is not None:
            model.pop(key, None)
    frame = encode(RESTORE, 1, 1, 0, len(rows), [k for k, _ in rows], [v for _, v in rows])
    batch(frame).apply_to(before)
    assert before == model


@settings(max_examples=400)
@given(rows=ROWS, data=st.data())
def test_a_changed_frame_is_refused_or_whole(
    rows: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    n = len(rows)
    frame = bytearray(
        encode(
            RECORDS, 1, 1, 5, 5 + 2 * n, [k for k, _ in rows], [v for _, v in rows],
            timestamps=list(range(n)), offsets=[5 + 2 * i for i in range(n)],
            headers=[[("h", None)]] * n,
        )
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decode_all(bytes(frame))


@settings(max_examples=400)
@given(st.binary(max_size=400), st.integers(0, 63), st.integers(0, 20))
def test_any_bytes_are_refused_or_whole(tail: bytes, flags: int, count: int) -> None:
    import struct

    head = struct.pack("<BBHIIIqqIIII", 1, 2, flags, 1, 1, count, 0, 99, 3, 4, 0, 0)
    decode_all(tail)
    decode_all(head + tail)


def decode_all(data: bytes) -> None:
    try:
        got = batch(data)
    except FrameError:
        return
    n = len(got)
    assert len(got.keys) == len(got.values) == len(got.offsets) == n
    assert sum(len(key or b"") for key in got.keys) == sum(got._frame.key_lengths)  # pyright: ignore[reportPrivateUsage]
    assert len([got.headers(i) for i in range(n)]) == n
    got.apply_to({})


def test_a_count_that_promises_more_than_memory() -> None:
    import struct

    for count in (1 << 20, (1 << 32) - 1):
        head = struct.pack("<BBHIIIqqIIII", 1, 2, 63, 1, 1, count, 0, 1 << 40, 1, 1, 1, 0)
        with pytest.raises(FrameError):
            parse(head + bytes(1000))


@given(st.lists(st.tuples(PART, PART, HEADERS), max_size=60), st.integers(80, 300))
def test_cut_keeps_order_and_size(rows: list[tuple[Any, Any, Any]], target: int) -> None:
    records = [Record(*row) for row in rows]
    runs = list(cut(records, target, 1 << 20, "t"))
    assert [record for run in runs for record in run] == records
    for run in runs:
        frame = encode(
            WRITES, 1, 1, 1, 0, [r.key for r in run], [r.value for r in run],
            headers=[r.headers for r in run], timestamps=[0] * len(run),
        )  # fmt: skip
        assert len(run) == 1 or len(frame) <= target


def test_a_large_record_travels_alone() -> None:
    rows = [(b"a", b"1"), (b"b", bytes(1 << 20)), (b"c", b"3")]
    frames = writes(1, 2, 3, rows, 128 << 20, "t")
    assert [len(parse(frame).key_lengths) for frame in frames] == [1, 1, 1]
    assert writes(1, 2, 3, [], 1 << 20, "t") == []


@pytest.mark.parametrize("row", [("k", b""), (b"k", 3), (b"k", bytearray(b"v"))])
def test_only_bytes_are_written(row: tuple[Any, Any]) -> None:
    with pytest.raises(CommitRejected, match="where bytes belong"):
        writes(1, 1, 1, [row], 1 << 20, "topic 't'")
