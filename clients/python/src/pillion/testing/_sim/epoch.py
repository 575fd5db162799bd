"""Lives of tasks on one connection, as the sidecar sees them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ... import _messages as m
from ..._frames import Frame

State = Literal[
    "opening", "restoring", "restored", "running", "revoking", "released", "failed", "over"
]
Kind = Literal["records", "output", "changelog", "source", "global"]


@dataclass(slots=True, eq=False)
class Stream:
    """One topic partition under one epoch. Sizes are in bytes."""

    id: int
    epoch: Epoch
    name: str
    topic: str
    kind: Kind
    window: int
    limit: int
    granted: int
    position: int = 0
    """Where the next frame begins."""
    sent: int = 0
    received: int = 0
    sizes: list[int] = field(default_factory=list[int])
    """Of the frames that were sent."""
    ends: dict[int, bool] = field(default_factory=dict[int, bool])
    """Positions and whether they may be committed: not the last offset + 1 before a gap."""


class Item(NamedTuple):
    """What travels in its task's stream: a frame, or a message behind frames (no stream)."""

    stream: Stream | None
    data: str | bytes
    sent: Callable[[], None] | None


@dataclass(slots=True, eq=False)
class Epoch:
    """One life of a task. task is our name of it, wire_name the worker's."""

    task: str
    wire_name: str
    of: str
    """The set's name, or the global table's."""
    partition: int
    number: int
    role: m.Role
    state: State = "opening"
    ran: bool = False
    asked: int = 0
    """Id of assign."""
    ready: int = 0
    """The id that ready must answer; 0: none."""
    revoke: int = 0
    overtaken: set[int] = field(default_factory=set[int])
    unheard: bool = False
    """A ready has come that a reset or revoke had overtaken: the worker could not know."""
    resets: dict[int, Stream] = field(default_factory=dict[int, Stream])
    tables: dict[str, Stream] = field(default_factory=dict[str, Stream])
    sources: dict[str, Stream] = field(default_factory=dict[str, Stream])
    outputs: dict[str, Stream] = field(default_factory=dict[str, Stream])
    next: dict[str, int] = field(default_factory=dict[str, int])
    """By source topic: the position of the last commit that came."""
    queue: deque[Item] = field(default_factory=deque[Item])

    @property
    def living(self) -> bool:
        """Whether the epoch goes on."""
        return self.state != "over"

    def table_streams(self) -> list[m.TableStream]:
        """The tables as assign lists them."""
        return [
            m.TableStream(s.name, s.topic, s.kind, s.id)
            for s in self.tables.values()
            if s.kind != "records" and s.kind != "output"
        ]

    def source_streams(self) -> list[m.SourceStream]:
        """The sources as assign lists them."""
        return [m.SourceStream(s.topic, s.id, s.position) for s in self.sources.values()]

    def output_streams(self) -> list[m.OutputStream]:
        """The outputs as assign lists them."""
        return [m.OutputStream(s.topic, s.id) for s in self.outputs.values()]


@dataclass(slots=True, eq=False)
class Commit:
    """One that came whole, or is coming."""

    id: int
    epoch: Epoch
    frames: list[Frame] = field(default_factory=list[Frame])
    next: dict[str, int] = field(default_factory=dict[str, int])


def split(task: str) -> tuple[str, int]:
    """Take "words/0" apart."""
    set_, _, partition = task.rpartition("/")
    if not set_ or not partition.isdecimal():
        raise ValueError(f"{task!r} is no task: write set/partition")
    return set_, int(partition)
