"""What Kafka would hold: logs, committed positions, outputs. Outlives connections and workers."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]
NEXT = -1  # the offset behind the one before


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of a log. timestamp is in ms since 1970; None: it has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    offset: int = NEXT


class Written(NamedTuple):
    """A record that a commit of a task wrote to an output topic."""

    task: str
    topic: str
    record: Stored
    partition: int | None = None
    """None: it has not been looked for yet."""


class Point(NamedTuple):
    """What a checkpoint means: a log is in the store up to the position."""

    topic: str
    partition: int
    position: int
    void: bool
    """It came with the answer to a commit of an epoch that was over: no store may have it."""


@dataclass(slots=True)
class Log:
    """One partition of a topic."""

    records: list[Stored] = field(default_factory=list[Stored])
    end: int = 0

    def since(self, position: int, until: int | None = None) -> list[Stored]:
        """Give the records at and after a position, and before until."""
        first = bisect_left(self.records, position, key=_offset)
        last = None if until is None else bisect_left(self.records, until, key=_offset)
        return self.records[first:last]

    def append(self, records: Iterable[Stored]) -> None:
        """Put records at the end."""
        numbered, self.end = number(records, self.end)
        self.records += numbered

    def rows(self) -> dict[bytes, bytes]:
        """Add the log up to a table."""
        found: dict[bytes, bytes] = {}
        for record in self.records:
            if record.key is not None and record.value is not None:
                found[record.key] = record.value
            elif record.key is not None:
                found.pop(record.key, None)
        return found


class Kafka:
    """Everything that outlives a worker."""

    def __init__(self) -> None:
        self.logs: defaultdict[tuple[str, int], Log] = defaultdict(Log)
        """By topic and partition."""
        self.positions: defaultdict[tuple[str, int], int] = defaultdict(int)
        """Committed positions by topic and partition."""
        self.outputs: list[Written] = []
        self.points: dict[str, Point] = {}
        """Every checkpoint that was given."""

    def checkpoint(self, topic: str, partition: int, position: int, *, void: bool = False) -> str:
        """Make a new one. It has all characters that a careless client breaks."""
        made = f"v1:{topic}@{position} #{len(self.points) + 1} ~\"\\/<&>'{{}} "
        self.points[made] = Point(topic, partition, position, void)
        return made

    def newest(self, topic: str, partition: int) -> int:
        """Give the position of the newest checkpoint of a log; 0 without one."""
        return max(
            (
                point.position
                for point in self.points.values()
                if (point.topic, point.partition, point.void) == (topic, partition, False)
            ),
            default=0,
        )


def number(records: Iterable[Stored], at: int) -> tuple[list[Stored], int]:
    """Give offsets to those that have none; the first one without any is at ``at``."""
    made: list[Stored] = []
    for record in records:
        numbered = replace(record, offset=at) if record.offset == NEXT else record
        made.append(numbered)
        at = numbered.offset + 1
    return made, at


def _offset(record: Stored) -> int:
    return record.offset
