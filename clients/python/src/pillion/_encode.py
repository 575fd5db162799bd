"""Columns to frames. Pure; the counterpart of _frames.

Flow: a commit's pairs of one stream -> cut() into runs that fit the target -> encode() each run.
A record that is larger than the target travels alone.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from . import _frames as f
from .errors import CommitRejected


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
    if None in values:
        flags |= f.NULL_VALUES
        columns.append(_bits(values))
    if None in keys:
        flags |= f.NULL_KEYS
        columns.append(_bits(keys))
    full_keys = [key or b"" for key in keys]
    full_values = [value or b"" for value in values]
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
    rows = [_row(record, to) for record in records]
    frames: list[bytes] = []
    for run in cut(rows, min(f.DEFAULT_TARGET, largest), largest, to):
        timestamps = headers = None
        if any(row.timestamp is not None for row in run):
            now = time.time_ns() // 1_000_000
            timestamps = [now if row.timestamp is None else row.timestamp for row in run]
        if any(row.headers for row in run):
            headers = [row.headers for row in run]
        frames.append(
            encode(
                f.WRITES, stream, epoch, commit, 0,
                [row.key for row in run], [row.value for row in run],
                timestamps=timestamps, headers=headers,
            )
        )  # fmt: skip
    return frames


def cut(rows: Sequence[Record], target: int, largest: int, to: str) -> Iterator[Sequence[Record]]:
    """Cut rows into runs whose frames stay within the target, or hold one row."""
    sizes = [_size(row) for row in rows]
    if f.HEADER_SIZE + sum(sizes) <= target:
        if rows:
            yield rows
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
            yield rows[first:i]
            first, done = i, ends[i - 1]
    yield rows[first:]


def pack_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Encode one record's headers."""
    parts = [len(headers).to_bytes(4, "little")]
    for key, value in headers:
        raw = key.encode("utf-8", "surrogateescape")
        parts += [len(raw).to_bytes(4, "little"), raw]
        parts.append(struct.pack("<i", -1 if value is None else len(value)))
        parts.append(value or b"")
    return b"".join(parts)


def _row(record: Sequence[object], to: str) -> Record:
    row = record if isinstance(record, Record) else Record(*record)  # type: ignore[arg-type]
    for part in (row.key, row.value):
        if part is not None and type(part) is not bytes:
            raise CommitRejected(
                f"a record for {to} has a {type(part).__name__} where bytes belong; encode it",
                "usage",
            )
    return row


def _size(row: Record) -> int:
    # 8 for the two lengths, 8 for a timestamp, 4 for the headers' length, a byte for null bits.
    size = 21 + len(row.key or b"") + len(row.value or b"")
    if row.headers:
        size += 4 + sum(8 + 4 * len(key) + len(value or b"") for key, value in row.headers)
    else:
        size += 4
    return size


def _bits(column: Sequence[bytes | None]) -> bytes:
    packed = bytearray((len(column) + 7) >> 3)
    for i, part in enumerate(column):
        if part is None:
            packed[i >> 3] |= 1 << (i & 7)
    return bytes(packed)
