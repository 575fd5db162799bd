"""What a sidecar does to the tasks of a worker. Each move says its messages and returns at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ... import _messages as m
from ..._encode import encode
from ..._frames import RECORDS, RESTORE
from .epoch import Epoch, Item, Stream
from .kafka import Stored
from .session import Session

WHY = "the test wants it so"


def living(session: Session, task: str) -> Epoch:
    """Find the epoch of a task that goes on. Raises ValueError."""
    epoch = session.tasks.get(task)
    if epoch is None or not epoch.living:
        raise ValueError(f"task {task} is not assigned")
    return epoch


def assign(session: Session, task: str, role: m.Role = "active") -> Epoch:
    """Give a task under a new epoch; opened answers."""
    epoch = session.begin(task, role)
    epoch.asked = session.next_id()
    session.say(
        m.Assign(
            epoch.asked, epoch.wire_name, epoch.of, epoch.partition, role, epoch.number,
            epoch.source_streams(), epoch.table_streams(), epoch.output_streams(),
        )
    )  # fmt: skip
    return epoch


def restore(
    session: Session,
    table: Stream,
    *,
    per_frame: int = 0,
    until: int | None = None,
    base: int | None = None,
    empty: bool = False,
) -> None:
    """Send rows of a table from where its stream is, with checkpoints.

    per_frame 0: all in one. base makes the first frame lie about where it begins; empty adds a
    frame without records.
    """
    log = session.kafka.logs[table.topic, table.epoch.partition]
    end = log.end if until is None else until
    for records, next_ in _cut(log.since(table.position, end), per_frame, end):
        _restore_frame(session, table, table.position if base is None else base, records, next_)
        base = None
    if empty or table.position < end:
        _restore_frame(session, table, table.position, [], end)
    session.pump()


def restored(session: Session, epoch: Epoch) -> None:
    """Say that the tables are whole, behind the frames; ready answers."""
    id_ = session.next_id()

    def sent() -> None:
        epoch.ready, epoch.state = id_, "restored"

    session.in_stream(epoch, m.Restored(id_, epoch.wire_name, epoch.number), sent)


def feed(
    session: Session,
    source: Stream,
    records: Sequence[Stored],
    next_: int,
    base: int | None = None,
) -> None:
    """Send source records that have offsets. base makes the frame lie about where it begins."""
    at = source.position if base is None else base
    honest = at == source.position
    if honest:
        source.position = next_

    def sent() -> None:
        if honest:
            _delivered(source, at, next_, records)

    source.epoch.queue.append(Item(source, frame(RECORDS, source, at, next_, records), sent))
    session.pump()


def deliver(session: Session, source: Stream, *, per_frame: int = 0) -> None:
    """Send what the source's log holds from its position on."""
    log = session.kafka.logs[source.topic, source.epoch.partition]
    for records, next_ in _cut(log.since(source.position), per_frame, log.end):
        feed(session, source, records, next_)


def revoke(
    session: Session, epoch: Epoch, code: str = "rebalance", deadline_ms: int = 10_000
) -> None:
    """Ask for a task; released answers. What has not been sent of it stays here."""
    epoch.queue.clear()
    epoch.revoke = session.next_id()
    if epoch.state != "failed":
        epoch.state = "revoking"
    session.say(m.Revoke(epoch.revoke, epoch.wire_name, epoch.number, deadline_ms, code))


def lose(session: Session, epoch: Epoch, code: str = "fenced") -> None:
    """End an epoch at once."""
    epoch.queue.clear()
    epoch.state = "over"
    session.lively = False
    session.say(m.Lost(epoch.wire_name, epoch.number, code, WHY))


def promote(session: Session, old: Epoch) -> Epoch:
    """Make a standby the active, behind the frames; ready answers."""
    epoch = _take_over(session, old, "active")
    id_ = session.next_id()

    def sent() -> None:
        old.state, epoch.ready, epoch.state = "over", id_, "restored"

    message = m.Promoted(
        id_, epoch.wire_name, epoch.number,
        epoch.source_streams(), epoch.table_streams(), epoch.output_streams(),
    )  # fmt: skip
    session.in_stream(epoch, message, sent)
    return epoch


def demote(session: Session, old: Epoch) -> Epoch:
    """Make an active a standby, behind the frames. Its records that were not sent stay here."""
    sources = old.sources.values()
    old.queue = deque(item for item in old.queue if item.stream not in sources)
    epoch = _take_over(session, old, "standby")

    def sent() -> None:
        old.state, epoch.state = "over", "restoring"

    session.in_stream(epoch, m.Demoted(epoch.wire_name, epoch.number, epoch.table_streams()), sent)
    return epoch


def reset(session: Session, epoch: Epoch, table: Stream, next_offset: int = 0) -> None:
    """Have one store wiped; opened answers.

    Frames of it, and a restored that was not answered, do not count any more.
    """
    epoch.queue = deque(i for i in epoch.queue if i.stream is not table and i.stream is not None)
    if epoch.ready:
        epoch.overtaken.add(epoch.ready)
    id_ = session.next_id()
    table.position, epoch.resets[id_] = next_offset, table
    session.say(
        m.Reset(
            id_, epoch.wire_name, epoch.number, table.name, table.id, next_offset, "recreated", WHY
        )
    )


def frame(
    kind: int,
    stream: Stream,
    base: int,
    next_: int,
    records: Sequence[Stored],
    checkpoint: str = "",
) -> bytes:
    """Build a frame of records that have offsets, with no column more than they need."""
    offsets = [record.offset for record in records]
    dense = offsets == list(range(base, base + len(records)))
    stamped = any(record.timestamp is not None for record in records)
    headed = any(record.headers for record in records)
    return encode(
        kind, stream.id, stream.epoch.number, base, next_,
        [record.key for record in records], [record.value for record in records],
        timestamps=[record.timestamp or 0 for record in records] if stamped else None,
        offsets=None if dense else offsets,
        headers=[record.headers for record in records] if headed else None,
        checkpoint=checkpoint,
    )  # fmt: skip


def _cut(records: Sequence[Stored], per_frame: int, end: int) -> list[tuple[Sequence[Stored], int]]:
    """Cut records into frames: each ends where the next record is, the last one at the end."""
    size = per_frame or max(1, len(records))
    runs = [records[at : at + size] for at in range(0, len(records), size)]
    ends = [run[0].offset for run in runs[1:]]
    return list(zip(runs, [*ends, end], strict=False))


def _restore_frame(
    session: Session, table: Stream, base: int, records: Sequence[Stored], next_: int
) -> None:
    mark = session.kafka.checkpoint(table.topic, table.epoch.partition, next_)
    data = frame(RESTORE, table, base, next_, records, mark)
    table.position = next_
    table.epoch.queue.append(Item(table, data, None))


def _delivered(source: Stream, base: int, next_: int, records: Sequence[Stored]) -> None:
    """Note which positions a commit may name."""
    source.ends[base] = True
    for record in records:
        source.ends[record.offset + 1] = True
    if records and records[-1].offset + 1 != next_:
        source.ends[records[-1].offset + 1] = False
    source.ends[next_] = True


def _take_over(session: Session, old: Epoch, role: m.Role) -> Epoch:
    """Make the next epoch of a task with the stores, and the queue, of the one before."""
    before = old.state
    epoch = session.begin(old.task, role)
    old.state = before  # until the worker is told
    epoch.queue, old.queue = old.queue, deque()
    for name, stream in epoch.tables.items():
        stream.position = old.tables[name].position
    return epoch
