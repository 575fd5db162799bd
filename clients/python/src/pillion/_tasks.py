"""The states of a task as the worker sees them. Everything that affects transitions is here.

The table below says what may happen when; an event that it does not know is an error and changes
nothing. spec/PROTOCOL.md has the same table in words.

    assign -> OPENING --opened--> RESTORING --restored--> RESTORED --ready--> RUNNING
                                      |  promoted (standby)          ^
                                      +--------> PROMOTED --ready----+
    any of these --revoke--> REVOKING --released--> ENDED; any --lost--> ENDED

Restore frames may come from `opened` on for as long as the epoch lasts: source tables, global
tables and standbys are followed for ever. Records come only while RUNNING. After a reset a RUNNING
task is RESTORED once more; what was delivered before may be committed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from ._batch import Fence
from ._frames import RECORDS, RESTORE
from ._messages import OutputStream, SourceStream, TableStream


class State(Enum):
    """Where a task epoch stands."""

    OPENING = auto()
    RESTORING = auto()
    RESTORED = auto()
    PROMOTED = auto()
    RUNNING = auto()
    REVOKING = auto()
    ENDED = auto()


class On(Enum):
    """What can happen to a task epoch."""

    # from the sidecar
    RESTORE_FRAME = auto()
    RECORDS_FRAME = auto()
    RESTORING = auto()
    RESTORED = auto()
    RESET = auto()
    PROMOTED = auto()
    DEMOTED = auto()
    REVOKE = auto()
    LOST = auto()
    # from user code
    OPENED = auto()
    READY = auto()
    COMMIT = auto()
    RELEASED = auto()


S = State
TRANSITIONS: dict[State, dict[On, State]] = {
    S.OPENING: {
        On.OPENED: S.RESTORING,
        On.REVOKE: S.REVOKING,
        On.LOST: S.ENDED,
    },
    S.RESTORING: {
        On.RESTORE_FRAME: S.RESTORING,
        On.RESTORING: S.RESTORING,
        On.RESTORED: S.RESTORED,
        On.RESET: S.RESTORING,
        On.OPENED: S.RESTORING,
        On.PROMOTED: S.ENDED,
        On.REVOKE: S.REVOKING,
        On.LOST: S.ENDED,
    },
    S.RESTORED: {
        On.RESTORE_FRAME: S.RESTORED,
        On.RESTORING: S.RESTORED,
        On.RESET: S.RESTORED,
        On.OPENED: S.RESTORED,
        On.RESTORED: S.RESTORED,
        On.READY: S.RUNNING,
        On.COMMIT: S.RESTORED,
        On.REVOKE: S.REVOKING,
        On.LOST: S.ENDED,
    },
    S.PROMOTED: {
        On.RESTORE_FRAME: S.PROMOTED,
        On.RESTORING: S.PROMOTED,
        On.RESET: S.PROMOTED,
        On.OPENED: S.PROMOTED,
        On.RESTORED: S.RESTORED,
        On.READY: S.RUNNING,
        On.REVOKE: S.REVOKING,
        On.LOST: S.ENDED,
    },
    S.RUNNING: {
        On.RESTORE_FRAME: S.RUNNING,
        On.RECORDS_FRAME: S.RUNNING,
        On.RESTORING: S.RUNNING,
        On.RESTORED: S.RESTORED,
        On.RESET: S.RUNNING,
        On.OPENED: S.RUNNING,
        On.COMMIT: S.RUNNING,
        On.DEMOTED: S.ENDED,
        On.REVOKE: S.REVOKING,
        On.LOST: S.ENDED,
    },
    S.REVOKING: {
        On.COMMIT: S.REVOKING,
        On.RELEASED: S.ENDED,
        On.LOST: S.ENDED,
    },
    S.ENDED: {},
}


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task under one epoch, as events carry it. A new epoch is a new Task."""

    name: str
    """``<set>/<partition>``, or ``<table>/<partition>`` for a global table."""
    set: str
    partition: int
    role: str
    """active, standby or global"""
    epoch: int
    tables: dict[str, TableStream] = field(repr=False)
    """The task's tables by name; .kind is changelog, source or global."""
    sources: dict[str, SourceStream] = field(repr=False)
    """The task's source partitions by topic; .position is where records begin."""
    outputs: dict[str, OutputStream] = field(repr=False)


@dataclass(slots=True, eq=False)
class Stream:
    """One stream of an epoch: what came on it, and what may still be sent."""

    id: int
    of: TaskState
    name: str
    """The table's name, or the topic of a source or output."""
    topic: str
    kind: int
    """What comes on it: records or restore frames; writes for an output, on which nothing comes."""
    fence: Fence = field(default_factory=Fence)
    next: int | None = None
    """Where the next frame must start; None: anywhere."""
    received: int = 0
    taken: int = 0
    granted: int = 0
    sent: int = 0
    limit: int = 0
    refused: bool = False
    """A gap was seen: everything is dropped until the sidecar opens the store anew."""

    @property
    def records(self) -> bool:
        """Whether records come on it."""
        return self.kind == RECORDS


@dataclass(slots=True, eq=False)
class TaskState:
    """One task epoch in the protocol core."""

    task: Task
    state: State
    request: int
    """The id that opened or released answers."""
    streams: list[Stream] = field(default_factory=list[Stream])
    resets: dict[str, int] = field(default_factory=dict[str, int])
    """Tables that wait for opened after a reset, with the request's id."""
    restored: list[int] = field(default_factory=list[int])
    """The ids that ready answers, oldest first."""
    holding: bool = False
    """Records wait: from a reset until the next restored is answered."""
    whole: bool = True
    """A restored has come since the last reset."""
    commits: int = 0
    """Commits without an answer."""
    was: Task | None = None
    """The active that demoted has made this copy of: what it committed belongs into the stores."""

    @property
    def ended(self) -> bool:
        """Whether the epoch is over."""
        return self.state is State.ENDED

    def allows(self, on: On) -> bool:
        """Say whether the event may happen now."""
        return on in TRANSITIONS[self.state]

    def go(self, on: On) -> bool:
        """Make the transition; False, and nothing changed, when the table does not know it."""
        after = TRANSITIONS[self.state].get(on)
        if after is None:
            return False
        self.state = after
        if after is State.ENDED:
            for stream in self.streams:
                # Promoted or demoted, a task goes on from its position: rows queued are good.
                goes_on = on in (On.PROMOTED, On.DEMOTED)
                stream.fence.broken = stream.records or not goes_on
        return True

    def table(self, name: str) -> Stream | None:
        """Find the stream of a table."""
        for stream in self.streams:
            if stream.kind == RESTORE and stream.name == name:
                return stream
        return None
