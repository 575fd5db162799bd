"""Typed records: what handlers get.

A batch is decoded before its handler sees it, a column at a time. Records that do not decode are
told apart one by one; what happens to them is the policy's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

from .._batch import Batch as RawBatch
from ..serdes import Serde, SerdeError
from ..serdes._scalars import BYTES
from ._declared import Topic
from ._policy import describe

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Record(NamedTuple, Generic[K, V]):
    """One record. A null key or value is None."""

    key: K | None
    value: V | None
    offset: int
    timestamp: int | None
    """Milliseconds since 1970."""
    headers: Sequence[tuple[str, bytes | None]]
    """In order; a name may come more than once."""
    topic: str
    partition: int


class Batch(Generic[K, V]):
    """Records of one partition of one topic, in order. A null key or value is None.

    Records that did not decode and were skipped are not in it.
    """

    __slots__ = ("_raw", "_rows", "keys", "values")

    def __init__(
        self, raw: RawBatch, keys: list[K | None], values: list[V | None], rows: Sequence[int]
    ) -> None:
        self._raw = raw
        self._rows = rows  # where its records are in the frame
        self.keys: list[K | None] = keys
        """The key of each record."""
        self.values: list[V | None] = values
        """The value of each record."""

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        where = f"{self.topic}/{self.partition}"
        return f"<Batch {where} [{self.base_offset}, {self.next_offset}) of {len(self)} records>"

    def __iter__(self) -> Iterator[Record[K, V]]:
        return self.records()

    def items(self) -> Iterator[tuple[K | None, V | None]]:
        """Pairs of key and value, in order."""
        return zip(self.keys, self.values, strict=True)

    def records(self) -> Iterator[Record[K, V]]:
        """The records one by one, with offset, timestamp and headers; items() is faster."""
        raw, topic, partition = self._raw, self.topic, self.partition
        offsets, stamps, headers = raw.offsets, raw.timestamps, raw.headers
        for row, key, value in zip(self._rows, self.keys, self.values, strict=True):
            stamp = None if stamps is None else stamps[row]
            yield Record(key, value, offsets[row], stamp, headers(row), topic, partition)

    @property
    def topic(self) -> str:
        """The source topic."""
        return self._raw.topic

    @property
    def partition(self) -> int:
        """The partition, which is the task's."""
        return self._raw.task.partition

    @property
    def base_offset(self) -> int:
        """The position before the batch."""
        return self._raw.base_offset

    @property
    def next_offset(self) -> int:
        """The position after the batch, across gaps."""
        return self._raw.next_offset

    @property
    def offsets(self) -> list[int]:
        """The offset of each record."""
        offsets = self._raw.offsets
        return [offsets[row] for row in self._rows]

    @property
    def timestamps(self) -> list[int] | None:
        """Milliseconds since 1970 of each record, or None when there are none."""
        stamps = self._raw.timestamps
        return None if stamps is None else [stamps[row] for row in self._rows]

    def headers(self, i: int) -> list[tuple[str, bytes | None]]:
        """Headers of record i: ordered, repeated names kept. A value may be null or any bytes."""
        return self._raw.headers(self._rows[i])

    @property
    def stale(self) -> bool:
        """Whether the task has gone: nothing that follows from the batch can be committed."""
        return self._raw.stale


class Undecodable(SerdeError):
    """A key or value did not decode; __cause__ is what the serde has raised."""

    code = "undecodable"


def decode(raw: RawBatch, topic: Topic[K, V]) -> tuple[Batch[K, V], dict[int, Exception]]:
    """Decode a batch. Records that do not decode are left out; why is told by row."""
    try:
        keys = _column(topic.key, raw.keys)
        values = _column(topic.value, raw.values)
    except Exception:
        return _one_by_one(raw, topic)
    return Batch(raw, keys, values, range(len(raw))), {}


def _one_by_one(raw: RawBatch, topic: Topic[K, V]) -> tuple[Batch[K, V], dict[int, Exception]]:
    bad: dict[int, Exception] = {}
    keys: list[K | None] = []
    values: list[V | None] = []
    rows: list[int] = []
    for row in range(len(raw)):
        try:
            key = _decoded("key", topic.key.decode, raw.keys[row])
            value = _decoded("value", topic.value.decode, raw.values[row])
        except Undecodable as error:
            bad[row] = error
            continue
        keys.append(key)
        values.append(value)
        rows.append(row)
    return Batch(raw, keys, values, rows), bad


def cut(raw: RawBatch, batch: Batch[K, V], bad: Container[int], row: int) -> Batch[K, V]:
    """Keep the records before a row of the frame. bad: the rows that are not in the batch."""
    rows = [each for each in range(row) if each not in bad]
    return Batch(raw, batch.keys[: len(rows)], batch.values[: len(rows)], rows)


def _column(serde: Serde[T], column: list[bytes | None]) -> list[T | None]:
    if serde is BYTES:
        return cast("list[T | None]", list(column))
    decode = serde.decode
    return [None if data is None else decode(data) for data in column]


def _decoded(what: str, decode: Callable[[bytes], T], data: bytes | None) -> T | None:
    if data is None:
        return None
    try:
        return decode(data)
    except Exception as error:
        raise Undecodable(f"its {what} does not decode: {describe(error)}") from error
