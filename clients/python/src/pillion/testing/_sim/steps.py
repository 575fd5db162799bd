"""The steps of a scenario about tasks, records and commits."""

from __future__ import annotations

from typing import Any

from ... import _messages as m
from . import moves
from .epoch import Epoch, split
from .fault import Fault
from .kafka import Stored, number
from .player import Player
from .values import data, records
from .verbs import verb

_MOST_FILL = 64 << 20  # bytes that are sent to a worker that gives credit without an end


@verb("topic")
async def topic(
    p: Player,
    name: str,
    *,
    records: list[Any] | None = None,
    end: int = 0,
    anew: bool = False,
) -> None:
    """Say what a log holds."""
    log = p.log(name)
    if anew:
        log.records, log.end = [], 0
    log.append(_records(records))
    log.end = max(log.end, end)


@verb("position")
async def position(p: Player, task: str, *, at: int) -> None:
    """Say a committed position."""
    p.sidecar.kafka.positions["words", split(task)[1]] = at


@verb("assign")
async def assign(
    p: Player, task: str, *, role: m.Role = "active", wait: bool = True, newest: bool = False
) -> None:
    """Give a task."""
    epoch = moves.assign(p.now, task, role)
    if not wait:
        return
    await opened(p, task)
    for stream in epoch.tables.values() if newest else ():
        last = p.sidecar.kafka.newest(stream.topic, epoch.partition)
        if stream.position not in (0, last):
            want = f"the newest checkpoint of {stream.name}, at {last}, or null"
            raise Fault(want, f"an older one, at {stream.position}")


@verb("opened")
async def opened(p: Player, task: str) -> None:
    """Wait for the answer to assign, or to every reset."""
    epoch = moves.living(p.now, task)
    await p.sidecar.until(
        f"opened for {task}", lambda: epoch.state != "opening" and not epoch.resets
    )


@verb("restore")
async def restore(
    p: Player,
    task: str,
    *,
    table: str = "",
    per_frame: int = 0,
    until: int | None = None,
    base: int | None = None,
    empty: bool = False,
) -> None:
    """Send what the tables' topics hold."""
    for stream in moves.living(p.now, task).tables.values():
        if table in ("", stream.name):
            moves.restore(p.now, stream, per_frame=per_frame, until=until, base=base, empty=empty)
            base = None


@verb("restored")
async def restored(p: Player, task: str, *, wait: bool = True) -> None:
    """Say that the tables are whole."""
    moves.restored(p.now, moves.living(p.now, task))
    if wait:
        await ready(p, task)


@verb("ready")
async def ready(p: Player, task: str) -> None:
    """Wait for it."""
    epoch = moves.living(p.now, task)
    await p.sidecar.until(f"ready for {task}", lambda: not epoch.queue and epoch.state == "running")


@verb("open")
async def open_(p: Player, task: str, *, role: m.Role = "active", per_frame: int = 0) -> None:
    """Assign, restore and say restored, with their waits."""
    await assign(p, task, role=role)
    await restore(p, task, per_frame=per_frame)
    await restored(p, task)


@verb("revoke")
async def revoke(
    p: Player, task: str, *, code: str = "rebalance", deadline_ms: int = 10_000
) -> None:
    """Ask for a task."""
    moves.revoke(p.now, moves.living(p.now, task), code, deadline_ms)


@verb("released")
async def released(p: Player, task: str) -> None:
    """Wait for it."""
    epoch = p.now.tasks[task]
    await p.sidecar.until(f"released for {task}", lambda: epoch.state in ("released", "over"))


@verb("lost")
async def lost(p: Player, task: str, *, code: str = "fenced") -> None:
    """End an epoch."""
    moves.lose(p.now, moves.living(p.now, task), code)


@verb("promote")
async def promote(p: Player, task: str, *, wait: bool = True) -> None:
    """Make a standby the active."""
    moves.promote(p.now, moves.living(p.now, task))
    if wait:
        await ready(p, task)


@verb("demote")
async def demote(p: Player, task: str) -> None:
    """Make an active a standby."""
    moves.demote(p.now, moves.living(p.now, task))


@verb("reset")
async def reset(
    p: Player, task: str, *, table: str, next_offset: int = 0, wait: bool = True
) -> None:
    """Have one store wiped."""
    epoch = moves.living(p.now, task)
    moves.reset(p.now, epoch, epoch.tables[table], next_offset)
    if wait:
        await opened(p, task)


@verb("feed")
async def feed(
    p: Player,
    task: str,
    *,
    records: list[Any] | None = None,
    base: int | None = None,
    next: int | None = None,
    times: int = 1,
) -> None:
    """Send source records."""
    for _ in range(times):
        _feed(p, moves.living(p.now, task), _records(records), base, next)


@verb("deliver")
async def deliver(p: Player, task: str, *, per_frame: int = 0) -> None:
    """Send what the task's source holds from its position on."""
    moves.deliver(p.now, moves.living(p.now, task).sources["words"], per_frame=per_frame)


@verb("fill")
async def fill(p: Player, task: str, *, key: Any = None, bytes: int) -> None:
    """Send frames of one record until the worker's credit is used up."""
    epoch, sent = moves.living(p.now, task), 0
    while p.now.may_send(epoch.sources["words"]) and not epoch.queue:
        sent += bytes
        if sent > _MOST_FILL:
            raise Fault(f"a window of at most {_MOST_FILL} bytes", "credit for more")
        _feed(p, epoch, [Stored(data(key), b"\0" * bytes)], None, None)


@verb("committed")
async def committed(
    p: Player,
    task: str,
    *,
    position: int | str,
    most: int | None = None,
    counts: dict[str, Any] | None = None,
    changes: list[Any] | None = None,
) -> None:
    """Wait for a position and compare what has been committed up to it."""
    partition, want = split(task)[1], p.position(task, position)
    positions, what = p.sidecar.kafka.positions, f"commits of task {task} up to position {want}"
    at = ("words", partition)
    try:
        await p.sidecar.until(what, lambda: positions[at] >= want)
    except Fault as fault:
        fault.add_note(f"committed so far: {positions[at]}")
        raise
    if most is not None and positions[at] > most:
        raise Fault(f"{what} and not past {most}", f"position {positions[at]}")
    if changes is not None:
        wanted = [(data(key), data(value)) for key, value in changes]
        if wanted != (came := p.changes(task)):
            raise Fault(f"in changes: {wanted}", f"{came}")
    if counts is not None:
        rows = {key.encode(): data(value) for key, value in counts.items()}
        if rows != (came := p.log(f"counts/{partition}").rows()):
            raise Fault(f"in the changelog of counts: {rows}", f"{came}")


@verb("answers")
async def answers(p: Player, how: str) -> None:
    """Hold back the answers to commits, or give those that were held and go on."""
    p.sidecar.answers_held = how == "hold"
    for commit in [] if p.sidecar.answers_held else list(p.now.held):
        p.now.answer(commit, "committed")


@verb("commit")
async def commit(p: Player, task: str, *, position: int | str) -> None:
    """Wait for a whole commit whose answer is held."""
    want, session = p.position(task, position), p.now
    await p.sidecar.until(
        f"a commit of task {task} up to position {want}",
        lambda: any(
            each.epoch.task == task and each.next.get("words", -1) >= want for each in session.held
        ),
    )


@verb("answer")
async def answer(
    p: Player, task: str, *, code: str = "", lands: bool = False, **fields: str
) -> None:
    """Answer every held commit of a task, in order."""
    with_ = fields["with"]
    if fields.keys() != {"with"}:
        raise ValueError("answer has the fields with, code and lands")
    mine = [each for each in p.now.held if each.epoch.task == task]
    if not mine:
        raise ValueError(f"no commit of {task} is held")
    for each in mine:
        p.now.answer(each, with_, code=code, lands=lands)


@verb("credit")
async def credit(p: Player, how: str) -> None:
    """Hold back the credit for what the worker sends, or give what was held and go on."""
    p.sidecar.credit_held = how == "hold"
    if not p.sidecar.credit_held:
        owed, p.sidecar.owed = p.sidecar.owed, []
        for stream in owed:
            p.now.refund(stream)


@verb("credited")
async def credited(p: Player, _credited: bool) -> None:
    """Wait until every byte that was sent has been granted anew."""
    session = p.now
    await p.sidecar.until("credit for every byte that was sent", lambda: session.credited)


@verb("granted")
async def granted(p: Player, task: str, *, most: int) -> None:
    """See that no more than the first frames have been granted anew."""
    source = moves.living(p.now, task).sources["words"]
    allowed, came = sum(source.sizes[:most]), source.limit - source.window
    if came > allowed:
        raise Fault(f"credit for at most {most} frames ({allowed} bytes)", f"for {came} bytes")


def _records(written: list[Any] | None) -> list[Stored]:
    return records(written or [])


def _feed(
    p: Player, epoch: Epoch, found: list[Stored], base: int | None, next_: int | None
) -> None:
    source = epoch.sources["words"]
    numbered, end = number(found, source.position if base is None else base)
    moves.feed(p.now, source, numbered, end if next_ is None else next_, base)
