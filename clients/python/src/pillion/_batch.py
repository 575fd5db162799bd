"""A batch of records: one data frame as user code sees it.

Columns are decoded at their first use and kept. The two blobs are split with
map(BytesIO(blob).read, lengths), which is the fastest way in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

from ._frames import HEADERS, LOG_APPEND_TIME, Frame, parse_headers

if TYPE_CHECKING:
    from ._tasks import Task


class Fence:
    """Shared by all batches of one stream; broken when they must not be used any more."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False


class Row(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


class Batch:
    """Records of one partition, in order. A null key or value is None, an empty one is b""."""

    __slots__ = ("_fence", "_frame", "_header_ends", "_keys", "_offsets", "_stamps", "_values",
                 "name", "task", "topic")  # fmt: skip

    def __init__(
        self, frame: Frame, task: Task, topic: str, name: str, fence: Fence | None = None
    ) -> None:
        self._frame = frame
        self._fence = fence or Fence()
        self.task: Task = task
        self.topic: str = topic
        """The Kafka topic that the records are from."""
        self.name: str = name
        """The table's name in a Restore event, the topic in a Records event."""
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._offsets: Sequence[int] | None = None
        self._stamps: tuple[int, ...] | None = None
        self._header_ends: list[int] | None = None

    def __len__(self) -> int:
        return self._frame.count

    def __repr__(self) -> str:
        where = f"{self.topic}/{self.task.partition}"
        return f"<Batch {where} [{self.base_offset}, {self.next_offset}) of {len(self)} records>"

    @property
    def stale(self) -> bool:
        """Whether the batch's epoch is over: nothing that follows from it can be committed."""
        return self._fence.broken

    @property
    def base_offset(self) -> int:
        """The position before the batch."""
        return self._frame.base

    @property
    def next_offset(self) -> int:
        """The position after the batch, across gaps and transaction markers."""
        return self._frame.next

    @property
    def checkpoint(self) -> str | None:
        """What a store is complete up to once it holds this batch. Restore only."""
        return self._frame.checkpoint or None

    @property
    def stream(self) -> int:
        """The stream that it came on."""
        return self._frame.stream

    @property
    def nbytes(self) -> int:
        """Bytes of the frame."""
        return len(self._frame.data)

    @property
    def keys(self) -> list[bytes | None]:
        """The key of each record."""
        if self._keys is None:
            frame = self._frame
            self._keys = _split(frame.data, frame.keys_at, frame.key_lengths, frame.null_keys())
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        """The value of each record."""
        if self._values is None:
            f = self._frame
            self._values = _split(f.data, f.values_at, f.value_lengths, f.null_values())
        return self._values

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each record."""
        if self._offsets is None:
            self._offsets = self._frame.offsets()
        return self._offsets

    @property
    def timestamps(self) -> tuple[int, ...] | None:
        """Milliseconds since 1970 of each record, or None when the frame carries none."""
        if self._stamps is None:
            self._stamps = self._frame.timestamps()
        return self._stamps or None

    @property
    def log_append_time(self) -> bool:
        """Whether the broker, not the producer, gave the timestamps."""
        return bool(self._frame.flags & LOG_APPEND_TIME)

    def headers(self, i: int) -> list[tuple[str, bytes | None]]:
        """Headers of record i: ordered, repeated keys kept. A value may be null or any bytes."""
        frame = self._frame
        if not frame.flags & HEADERS:
            return []
        if self._header_ends is None:
            self._header_ends = list(accumulate(frame.header_lengths))
        end = frame.headers_at + self._header_ends[i]
        return parse_headers(frame.data[end - frame.header_lengths[i] : end])

    def items(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Pairs of key and value, in order."""
        return zip(self.keys, self.values, strict=True)

    def rows(self) -> Iterator[Row]:
        """Records as named tuples, for comfort; the columns are faster."""
        stamps: Sequence[int | None] = self.timestamps or [None] * len(self)
        return map(Row, self.offsets, stamps, self.keys, self.values)

    def apply_to(self, table: dict[bytes, bytes]) -> None:
        """Bring a dict up to date: set each key to its last value, remove it at a tombstone.

        Records without a key say nothing about a table and are passed over.
        """
        frame = self._frame
        null_values, null_keys = frame.null_values(), frame.null_keys()
        if null_values or null_keys:
            _apply_nulls(table, self.keys, self.values, null_values)
            return
        keys = BytesIO(frame.data)  # shares the bytes: nothing is copied
        keys.seek(frame.keys_at)
        values = BytesIO(frame.data)
        values.seek(frame.values_at)
        read_keys, read_values = (
            map(keys.read, frame.key_lengths),
            map(values.read, frame.value_lengths),
        )
        table.update(zip(read_keys, read_values, strict=True))


def _split(data: bytes, at: int, lengths: tuple[int, ...], nulls: bytes) -> list[bytes | None]:
    blob = BytesIO(data)
    blob.seek(at)
    column: list[bytes | None] = list(map(blob.read, lengths))
    for i in compress(range(len(nulls)), nulls):
        column[i] = None
    return column


def _apply_nulls(
    table: dict[bytes, bytes],
    keys: list[bytes | None],
    values: list[bytes | None],
    null_values: bytes,
) -> None:
    # Set everything, tombstones as None, so that the last record of a key wins; then remove the
    # keys that ended as None. Both loops run in C but for the tombstones themselves.
    mixed: dict[bytes | None, bytes | None] = table  # type: ignore[assignment]
    mixed.update(zip(keys, values, strict=True))
    for i in compress(range(len(null_values)), null_values):
        key = keys[i]
        if mixed.get(key, b"") is None:
            del mixed[key]
    mixed.pop(None, None)
