"""The events of a connection: one ordered stream.

Events of one task come in the order in which they happened. Revoking, Lost and Reset overtake: the
batches that they make useless are taken out of the queue, and nothing of the task follows a Lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ._batch import Batch
from ._tasks import Task


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task is this worker's. Open its stores and answer conn.opened(task, checkpoints)."""

    task: Task


@dataclass(frozen=True, slots=True)
class Restore:
    """Rows of a table: apply them to its store, with batch.checkpoint, in one transaction."""

    task: Task
    batch: Batch

    @property
    def table(self) -> str:
        """The table's name."""
        return self.batch.name


@dataclass(frozen=True, slots=True)
class Restoring:
    """How far a replay has come. eta_ms is -1 when it is not known.

    waits_for says what a replay waits for that stands still.
    """

    task: Task
    table: str
    records: int
    bytes: int
    rate: int
    remaining: int
    eta_ms: int
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    """All tables of the task are whole. Answer conn.ready(task); then records come."""

    task: Task


@dataclass(frozen=True, slots=True)
class Records:
    """Source records: process them and commit batch.next_offset."""

    task: Task
    batch: Batch

    @property
    def topic(self) -> str:
        """The source topic."""
        return self.batch.topic


@dataclass(frozen=True, slots=True)
class Revoking:
    """The task moves away. Make the last commit and answer conn.release(task) in time."""

    task: Task
    deadline_ms: int
    code: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The task is gone; nothing of it can be committed any more. Close its stores."""

    task: Task
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Promoted:
    """A standby has become the active: task is the new one. Answer conn.ready(task)."""

    task: Task
    was: Task


@dataclass(frozen=True, slots=True)
class Demoted:
    """An active has become a standby: task is the new one."""

    task: Task
    was: Task


@dataclass(frozen=True, slots=True)
class Reset:
    """One store is of no use. Wipe it and answer conn.opened(task, {table: None})."""

    task: Task
    table: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the sidecar waits for. Code ok: it is there."""

    code: str
    message: str


Event: TypeAlias = (
    Assigned
    | Restore
    | Restoring
    | Restored
    | Records
    | Revoking
    | Lost
    | Promoted
    | Demoted
    | Reset
    | Waiting
)

__all__ = [
    "Assigned", "Demoted", "Event", "Lost", "Promoted", "Records", "Reset", "Restore", "Restored",
    "Restoring", "Revoking", "Waiting",
]  # fmt: skip
