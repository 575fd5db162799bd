"""Commits on their way: cut into frames, sent in order behind credit, answered in order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import _messages as m
from ._codes import Code
from ._encode import writes
from ._tasks import On, Stream, TaskState
from .errors import (
    CommitAborted,
    CommitError,
    CommitRejected,
    CommitStale,
    CommitUnknown,
    PillionError,
    retriable,
)

Changelog = Mapping[str, Iterable[tuple[bytes, bytes | None]]]
Outputs = Mapping[str, Iterable[Sequence[object]]]


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit is whole in Kafka. A store may now take its writes and its checkpoint."""

    task: str
    checkpoints: Mapping[str, str]
    """The new checkpoint of each table that was written."""


Outcome = Committed | PillionError


@dataclass(slots=True, eq=False)
class Pending:
    """A commit without an answer. done is called once."""

    id: int
    of: TaskState
    source_next: dict[str, int]
    done: Callable[[Outcome], None]
    frames: deque[tuple[Stream, bytes]] = field(default_factory=deque[tuple[Stream, bytes]])
    started: bool = False
    """Something of it was sent."""

    def message(self) -> m.Commit:
        """The message that ends it."""
        return m.Commit(self.id, self.of.task.name, self.of.task.epoch, self.source_next)


def check(state: TaskState, source_next: Mapping[str, int], outstanding: int) -> None:
    """Refuse a commit that the sidecar would refuse. Raises CommitRejected."""
    task = state.task
    if not state.allows(On.COMMIT):
        raise CommitRejected(
            f"task {task.name} cannot commit while it is {state.state.name.lower()}; commit what "
            "Records events bring",
            Code.NOT_ALLOWED,
        )
    if state.commits >= outstanding:
        raise CommitRejected(
            f"task {task.name} has {outstanding} commits without an answer; await one first",
            Code.TOO_MANY_COMMITS,
        )
    if not source_next or not source_next.keys() <= task.sources.keys():
        raise CommitRejected(
            f"a commit of task {task.name} names the sources {sorted(source_next)}; name one or "
            f"more of {sorted(task.sources)}",
            Code.BAD_POSITION,
        )


def build(
    state: TaskState, commit: int, changelog: Changelog, outputs: Outputs, limits: m.Limits
) -> deque[tuple[Stream, bytes]]:
    """Cut the writes of a commit into frames. Raises CommitRejected; nothing was sent then."""
    frames: deque[tuple[Stream, bytes]] = deque()
    total = 0
    for stream, records, to in _targets(state, changelog, outputs):
        for frame in writes(stream.id, state.task.epoch, commit, records, limits.max_frame, to):
            frames.append((stream, frame))
            total += len(frame)
    if total > limits.max_commit_bytes:
        raise CommitRejected(
            f"a commit of {total} bytes for task {state.task.name} is larger than the "
            f"{limits.max_commit_bytes} bytes that the sidecar takes; commit more often, or raise "
            "max_commit_bytes",
            Code.COMMIT_TOO_LARGE,
        )
    return frames


def _targets(
    state: TaskState, changelog: Changelog, outputs: Outputs
) -> Iterable[tuple[Stream, Iterable[Sequence[object]], str]]:
    task = state.task
    by_id = {stream.id: stream for stream in state.streams}
    for table, rows in changelog.items():
        found = task.tables.get(table)
        if found is None or found.kind != "changelog":
            known = "is not a table" if found is None else "is a read-only table"
            raise CommitRejected(
                f"{table!r} {known} of task {task.name}; declare it as a Table of its set",
                Code.UNDECLARED_OUTPUT if found is None else Code.NOT_ALLOWED,
            )
        pairs = list(rows)
        if None in {key for key, _ in pairs}:  # pyright: ignore[reportUnnecessaryContains]
            raise CommitRejected(
                f"a record for table {table!r} of task {task.name} has a null key, which its "
                f"changelog {found.topic} cannot keep; give each row a key",
                Code.NULL_KEY,
            )
        yield by_id[found.stream], pairs, f"table {table!r}"
    for topic, records in outputs.items():
        output = task.outputs.get(topic)
        if output is None:
            raise CommitRejected(
                f"topic {topic!r} is not an output of this worker; add it to outputs in connect()",
                Code.UNDECLARED_OUTPUT,
            )
        yield by_id[output.stream], records, f"topic {topic!r}"


def outcome(message: m.Message) -> Outcome:
    """Turn an answer into what the caller gets."""
    match message:
        case m.Committed():
            return Committed(message.task, message.checkpoints)
        case m.Aborted():
            return CommitAborted(message.message, message.code, retriable=retriable(message.code))
        case m.Unknown():
            return CommitUnknown(message.message, message.code)
        case m.Stale():
            return stale(message.task)
        case m.Error(code=Code.NOT_ALLOWED):
            # The sidecar has not heard ready, or a reset or revoke has overtaken it.
            return CommitAborted(message.message, message.code, retriable=True)
        case m.Error():
            return CommitRejected(message.message, message.code, retriable=retriable(message.code))
        case _:
            raise AssertionError(f"{message.TYPE} answers no commit")


def stale(task: str) -> CommitError:
    """The error of a commit whose epoch is over."""
    return CommitStale(
        f"a commit of task {task} came after its epoch was over; its records come again"
    )
