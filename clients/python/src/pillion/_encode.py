"""Columns to frames. Pure; the counterpart of _frames.

Flow: a commit's pairs of one stream -> cut() into runs that fit the target -> encode() each run.
A record that is larger than the target travels alone.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from types import NoneType
from typing import Any, Final, NamedTuple, cast

from . import _frames as f
from .errors import CommitRejected

# What a record takes in a frame beside key, value and headers: 8 bytes for the two lengths, 8 for a
# timestamp, 8 for headers' length and count, a byte for null bits.
PLAIN: Final = 25


class Record(NamedTuple):
    """A record to write. Headers are ordered and may repeat.

    timestamp is in milliseconds; without one it is the time at which the record is sent.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None


def encode(
    kind: int,
    stream: int,
    epoch: int,
    base: int,
    next_: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    *,
    timestamps: Sequence[int] | None = None,
    log_append_time: bool = False,
    offsets: Sequence[int] | None = None,
    headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
    checkpoint: str = "",
) -> bytes:
    """Build one frame. Offsets are given only when they have gaps."""
    count = len(keys)
    columns: list[bytes] = [b"", b""]
    flags = 0
    if timestamps is not None:
        flags |= f.TIMESTAMPS | (f.LOG_APPEND_TIME if log_append_time else 0)
        columns.append(struct.pack(f"<{count}q", *timestamps))
    if offsets is not None:
        flags |= f.OFFSET_DELTAS
        columns.append(struct.pack(f"<{count}i", *[offset - base for offset in offsets]))
    header_blob = b""
    if headers is not None:
        flags |= f.HEADERS
        packed = [pack_headers(each) for each in headers]
        columns.append(struct.pack(f"<{count}i", *map(len, packed)))
        header_blob = b"".join(packed)
    full_keys, full_values = cast("Sequence[bytes]", keys), cast("Sequence[bytes]", values)
    if None in values:
        flags |= f.NULL_VALUES
        columns.append(_bits(values))
        full_values = [value or b"" for value in values]
    if None in keys:
        flags |= f.NULL_KEYS
        columns.append(_bits(keys))
        full_keys = [key or b"" for key in keys]
    columns[0] = struct.pack(f"<{count}i", *map(len, full_keys))
    columns[1] = struct.pack(f"<{count}i", *map(len, full_values))
    key_blob, value_blob, mark = b"".join(full_keys), b"".join(full_values), checkpoint.encode()
    head = f.HEADER.pack(
        f.VERSION, kind, flags, stream, epoch, count, base, next_,
        len(key_blob), len(value_blob), len(header_blob), len(mark),
    )  # fmt: skip
    return b"".join((head, *columns, key_blob, value_blob, header_blob, mark))


def writes(
    stream: int, epoch: int, commit: int, records: Iterable[Sequence[object]], largest: int, to: str
) -> list[bytes]:
    """Build the writes frames of one stream in one commit. to names the stream in errors."""
    rows = [*records]
    keys, values = _column(rows, 0, to), _column(rows, 1, to)
    more: list[Record] = []
    if {2}.issuperset(map(len, rows)):  # the rows of a table
        sizes = [PLAIN + len(k or b"") + len(v or b"") for k, v in zip(keys, values, strict=True)]
    else:
        more = [row if isinstance(row, Record) else Record(*cast("Any", row)) for row in rows]
        sizes = [_size(row) for row in more]
    frames: list[bytes] = []
    for run in _runs(sizes, min(f.DEFAULT_TARGET, largest), largest, to):
        timestamps = headers = None
        if any(row.timestamp is not None for row in more[run]):
            now = time.time_ns() // 1_000_000
            timestamps = [now if row.timestamp is None else row.timestamp for row in more[run]]
        if any(row.headers for row in more[run]):
            headers = [row.headers for row in more[run]]
        frames.append(
            encode(
                f.WRITES, stream, epoch, commit, 0, keys[run], values[run],
                timestamps=timestamps, headers=headers,
            )
        )  # fmt: skip
    return frames


def cut(rows: Sequence[Record], target: int, largest: int, to: str) -> Iterator[Sequence[Record]]:
    """Cut rows into runs whose frames stay within the target, or hold one row."""
    for run in _runs([_size(row) for row in rows], target, largest, to):
        yield rows[run]


def _runs(sizes: Sequence[int], target: int, largest: int, to: str) -> Iterator[slice]:
    if f.HEADER_SIZE + sum(sizes) <= target:
        if sizes:
            yield slice(0, len(sizes))
        return
    for size in sizes:
        if f.HEADER_SIZE + size > largest:
            raise CommitRejected(
                f"a record of {size} bytes for {to} is larger than the {largest} bytes that the "
                "sidecar takes in one frame; make it smaller",
                "record_too_large",
            )
    ends = list(accumulate(sizes))
    first = done = 0
    for i, end in enumerate(ends):
        if i > first and f.HEADER_SIZE + end - done > target:
            yield slice(first, i)
            first, done = i, ends[i - 1]
    yield slice(first, len(sizes))


def pack_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode one record's headers."""
    parts = [len(headers).to_bytes(4, "little")]
    for key, value in headers:
        raw = key.encode("utf-8", "surrogateescape")
        parts += [len(raw).to_bytes(4, "little"), raw]
        parts.append(struct.pack("<i", -1 if value is None else len(value)))
        parts.append(value or b"")
    return b"".join(parts)


def _column(rows: Sequence[Sequence[object]], at: int, to: str) -> list[bytes | None]:
    column = [row[at] for row in rows]
    for kind in {*map(type, column)} - {bytes, NoneType}:
        raise CommitRejected(
            f"a record for {to} has a {kind.__name__} where bytes belong; encode it", "usage"
        )
    return cast("list[bytes | None]", column)


def _size(row: Record) -> int:
    size = PLAIN + len(row.key or b"") + len(row.value or b"")
    return size + sum(8 + 4 * len(key) + len(value or b"") for key, value in row.headers)


def _bits(column: Sequence[bytes | None]) -> bytes:
    packed = bytearray((len(column) + 7) >> 3)
    for i, part in enumerate(column):
        if part is None:
            packed[i >> 3] |= 1 << (i & 7)
    return bytes(packed)
