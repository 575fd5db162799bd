"""The columnar data frame: bytes to header and columns, columns to bytes. Pure.

A frame is one binary message: a header of 48 bytes, columns of fixed width, then blobs. The layout
is in spec/PROTOCOL.md. Parsing checks everything that decoding relies on, so that a hostile frame
ends in FrameError here and nowhere later:

INVARIANT: after parse() every length is >= 0 and the lengths of a column add up to its blob, so
that no read of a column can pass its end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import compress
from operator import sub

from ._codes import FrameFlag, FrameKind
from .errors import FrameError

VERSION = 1
HEADER_SIZE = 48
MAX_CHECKPOINT = 128
DEFAULT_TARGET = 256 << 10

MAX_INTEGER = (1 << 53) - 1  # offsets and commit ids: every language reads them exactly

# Plain numbers: an enum's operators are too slow for the data path.
RECORDS, RESTORE, WRITES = map(int, FrameKind)
TIMESTAMPS, LOG_APPEND_TIME, OFFSET_DELTAS, HEADERS, NULL_VALUES, NULL_KEYS = map(int, FrameFlag)
_ALL_FLAGS = sum(map(int, FrameFlag))
_WRITES_FLAGS = _ALL_FLAGS & ~(LOG_APPEND_TIME | OFFSET_DELTAS)

HEADER = struct.Struct("<BBHIIIqqIIII")
# The eight bits of each byte value as bytes of 0 and 1, lowest bit first.
_BITS = [bytes((value >> bit) & 1 for bit in range(8)) for value in range(256)]
_HEADERS = "a record's headers do not fit their length"
_PRINTABLE = bytes(range(0x20, 0x7F))


@dataclass(frozen=True, slots=True)
class Frame:
    """A valid frame. Positions are byte offsets into data."""

    data: bytes
    kind: int
    flags: int
    stream: int
    epoch: int
    count: int
    base: int
    next: int
    key_lengths: tuple[int, ...]
    value_lengths: tuple[int, ...]
    header_lengths: tuple[int, ...]
    keys_at: int
    values_at: int
    headers_at: int
    checkpoint: str

    def null_values(self) -> bytes:
        """One byte for each record, 1 for a null value; empty when no value is null."""
        return self._nulls(NULL_VALUES)

    def null_keys(self) -> bytes:
        """One byte for each record, 1 for a null key; empty when no key is null."""
        return self._nulls(NULL_KEYS)

    def timestamps(self) -> tuple[int, ...]:
        """Milliseconds of each record; empty when the frame has none."""
        if not self.flags & TIMESTAMPS:
            return ()
        return struct.unpack_from(f"<{self.count}q", self.data, HEADER_SIZE + 8 * self.count)

    def offsets(self) -> range | list[int]:
        """The offset of each record."""
        if not self.flags & OFFSET_DELTAS:
            return range(self.base, self.base + self.count)
        base = self.base
        return [base + delta for delta in _deltas(self.data, self.flags, self.count)]

    def _nulls(self, flag: int) -> bytes:
        if not self.flags & flag:
            return b""
        return _expand(self.data, _nulls_at(self.flags, self.count, flag), self.count)


def parse(data: bytes) -> Frame:
    """Check a whole frame. Raises FrameError for anything that the layout does not allow."""
    if len(data) < HEADER_SIZE:
        raise FrameError(f"{len(data)} bytes are shorter than a header", reason="short")
    (version, kind, flags, stream, epoch, count, base, next_, keys, values, headers, checkpoint) = (
        HEADER.unpack_from(data)
    )
    if version != VERSION:
        raise FrameError(f"version {version} is not known", reason="version")
    if not stream or not epoch:
        raise FrameError(f"stream {stream}, epoch {epoch}: they begin at 1", reason="stream")
    _check_header(kind, flags, base, next_, headers, checkpoint)
    keys_at = _columns_end(flags, count)
    values_at, headers_at = keys_at + keys, keys_at + keys + values
    checkpoint_at = headers_at + headers
    if checkpoint_at + checkpoint != len(data):
        wanted = checkpoint_at + checkpoint
        raise FrameError(f"{len(data)} bytes came, the header says {wanted}", reason="size")
    key_lengths = _lengths(data, HEADER_SIZE, count, keys, "key")
    value_lengths = _lengths(data, HEADER_SIZE + 4 * count, count, values, "value")
    header_lengths: tuple[int, ...] = ()
    if flags & HEADERS:
        at = _header_lengths_at(flags, count)
        header_lengths = _lengths(data, at, count, headers, "header")
        _check_headers(data, headers_at, header_lengths)
    if flags & NULL_VALUES:
        _check_nulls(data, _nulls_at(flags, count, NULL_VALUES), count, value_lengths)
    if flags & NULL_KEYS:
        _check_nulls(data, _nulls_at(flags, count, NULL_KEYS), count, key_lengths)
    if kind != WRITES:
        _check_offsets(data, flags, count, next_ - base)
    mark = data[checkpoint_at:]
    if mark.strip(_PRINTABLE):
        raise FrameError("the checkpoint is not printable ASCII", reason="checkpoint")
    return Frame(
        data, kind, flags, stream, epoch, count, base, next_,
        key_lengths, value_lengths, header_lengths, keys_at, values_at, headers_at, mark.decode(),
    )  # fmt: skip


def parse_headers(raw: bytes) -> list[tuple[str, bytes | None]]:
    """Decode one record's part of the header blob."""
    found: list[tuple[str, bytes | None]] = []
    if not raw:
        return found
    if _walk_headers(raw, 0, len(raw), found) != len(raw):
        raise FrameError(_HEADERS, reason="header")
    return found


def _check_header(
    kind: int, flags: int, base: int, next_: int, headers: int, checkpoint: int
) -> None:
    allowed = _ALL_FLAGS
    if kind in (RECORDS, RESTORE):
        if not 0 <= base <= next_ <= MAX_INTEGER:
            raise FrameError(f"base offset {base}, next offset {next_}", reason="offset")
    elif kind == WRITES:
        allowed = _WRITES_FLAGS
        if not 1 <= base <= MAX_INTEGER or next_ != 0:
            raise FrameError(f"commit id {base}, next offset {next_}", reason="offset")
    else:
        raise FrameError(f"kind {kind} is not known", reason="kind")
    if flags & ~allowed:
        raise FrameError(f"flags {flags & ~allowed:#x} are not allowed", reason="flags")
    if flags & LOG_APPEND_TIME and not flags & TIMESTAMPS:
        raise FrameError("LogAppendTime without timestamps", reason="flags")
    if headers and not flags & HEADERS:
        raise FrameError("header bytes without the headers flag", reason="size")
    if checkpoint > MAX_CHECKPOINT or (checkpoint and kind != RESTORE):
        raise FrameError(f"a checkpoint of {checkpoint} bytes is not allowed", reason="checkpoint")


def _columns_end(flags: int, count: int) -> int:
    end = _header_lengths_at(flags, count) + (4 * count if flags & HEADERS else 0)
    bits = (count + 7) >> 3
    return end + bits * (bool(flags & NULL_VALUES) + bool(flags & NULL_KEYS))


def _header_lengths_at(flags: int, count: int) -> int:
    return _deltas_at(flags, count) + (4 * count if flags & OFFSET_DELTAS else 0)


def _deltas_at(flags: int, count: int) -> int:
    return HEADER_SIZE + 8 * count + (8 * count if flags & TIMESTAMPS else 0)


def _nulls_at(flags: int, count: int, flag: int) -> int:
    at = _header_lengths_at(flags, count) + (4 * count if flags & HEADERS else 0)
    return at + (((count + 7) >> 3) if flag == NULL_KEYS and flags & NULL_VALUES else 0)


def _lengths(data: bytes, at: int, count: int, total: int, what: str) -> tuple[int, ...]:
    lengths: tuple[int, ...] = struct.unpack_from(f"<{count}i", data, at)
    # All four high bytes zero says "not negative" at the speed of memory.
    if data[at + 3 : at + 4 * count : 4].strip(b"\0") and min(lengths) < 0:
        raise FrameError(f"a negative {what} length", reason="length")
    if sum(lengths) != total:
        raise FrameError(f"{what} lengths do not add up to {total}", reason="length")
    return lengths


def _deltas(data: bytes, flags: int, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}i", data, _deltas_at(flags, count))


def _check_offsets(data: bytes, flags: int, count: int, span: int) -> None:
    last = count - 1
    if flags & OFFSET_DELTAS:
        deltas = _deltas(data, flags, count)
        if deltas and (deltas[0] < 0 or min(map(sub, deltas[1:], deltas), default=1) <= 0):
            raise FrameError("offsets do not increase", reason="offset")
        last = deltas[-1] if deltas else -1
    if last >= span:
        raise FrameError("the last record is past the next offset", reason="offset")


def _check_nulls(data: bytes, at: int, count: int, lengths: tuple[int, ...]) -> None:
    if count & 7 and data[at + (count >> 3)] >> (count & 7):
        raise FrameError("padding bits of the nulls are not 0", reason="padding")
    if any(compress(lengths, _expand(data, at, count))):
        raise FrameError("a null with a length", reason="null")


def _expand(data: bytes, at: int, count: int) -> bytes:
    bits = data[at : at + ((count + 7) >> 3)]
    return b"".join(map(_BITS.__getitem__, bits))[:count]


def _check_headers(data: bytes, at: int, lengths: tuple[int, ...]) -> None:
    for length in lengths:
        if length and _walk_headers(data, at, at + length, None) != at + length:
            raise FrameError(_HEADERS, reason="header")
        at += length


def _walk_headers(
    data: bytes, at: int, end: int, found: list[tuple[str, bytes | None]] | None
) -> int:
    count, at = _u32(data, at, end)
    if count > (end - at) // 8:
        raise FrameError(_HEADERS, reason="header")
    for _ in range(count):
        size, at = _u32(data, at, end)
        key_at, at = at, at + size
        if at > end - 4:
            raise FrameError(_HEADERS, reason="header")
        (length,) = struct.unpack_from("<i", data, at)
        at += 4
        if length < -1 or at + max(length, 0) > end:
            raise FrameError(_HEADERS, reason="header")
        value = None if length < 0 else data[at : at + length]
        if found is not None:
            key = data[key_at : key_at + size].decode("utf-8", "surrogateescape")
            found.append((key, value))
        at += max(length, 0)
    return at


def _u32(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 4 > end:
        raise FrameError(_HEADERS, reason="header")
    return int.from_bytes(data[at : at + 4], "little"), at + 4
