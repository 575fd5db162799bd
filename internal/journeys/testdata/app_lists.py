"""The reference job of apps: a list per key of all its values, and one output for each record.

APP_STYLE: process or each, behind "async" or not. APP_PAUSE: seconds that an async handler awaits for
each record. APP_ON_ERROR: stop, skip, dead or function; APP_DEAD: the topic of dead letters.
APP_PROGRESS: an async handler of batches says that it goes on. APP_BAR=plain: as if rich were not installed. JOB_IN, JOB_OUT, JOB_WINDOW, JOB_STATE: as in counts.py.
Some values ask for something: see special().
"""

import asyncio
import os
import sys
import time
from contextlib import contextmanager
from collections.abc import Iterator

from app_common import STATE, held, point, say, tell
from pillion import Batch, Context, DeadLetter, Failure, OnError, Record, Skip, Stop, Worker

STYLE = os.environ.get("APP_STYLE", "process")
PROGRESS = "APP_PROGRESS" in os.environ
PAUSE = float(os.environ.get("APP_PAUSE", "0"))

app = Worker(state_dir=STATE / "tables", window=int(os.environ["JOB_WINDOW"]))
source = app.topic(os.environ["JOB_IN"], key=str, value=str)
copies = app.output(os.environ["JOB_OUT"], key=str, value=str)
dead = (
    app.output(os.environ["APP_DEAD"], key=bytes, value=bytes) if "APP_DEAD" in os.environ else None
)
seen = app.table("seen", key=str, value=list[str], default=list)
tell(app)

inside: set[int] = set()  # partitions whose handler runs
doors: dict[str, asyncio.Event] = {}
began: list[int] = []  # the offset of the first record


def on_error() -> OnError:
    match os.environ.get("APP_ON_ERROR", "stop"):
        case "skip":
            return Skip()
        case "dead":
            assert dead is not None
            return DeadLetter(dead)
        case "function":
            return judged
        case _:
            return Stop()


def judged(failure: Failure) -> Stop | Skip | DeadLetter:
    say(
        "failure", error=repr(failure.error), topic=failure.topic, partition=failure.partition,
        offset=failure.offset, key=str(failure.key), value=str(failure.value), decoding=failure.decoding,
    )  # fmt: skip
    if failure.decoding:
        return Skip()
    return DeadLetter(dead) if dead else Stop()


@contextmanager
def alone(partition: int) -> Iterator[None]:
    """One handler at a time per task."""
    if partition in inside:
        say("overlap", partition=partition)
    inside.add(partition)
    try:
        yield
    finally:
        inside.remove(partition)


def append(key: str | None, value: str | None, ctx: Context) -> None:
    assert key is not None and value is not None
    ctx[seen][key].append(value)
    ctx.send(copies, key=key, value=value)


def first(record: Record[str, str]) -> None:
    if not began:
        say("first record", partition=record.partition, offset=record.offset)
        began.append(record.offset)


def special(value: str) -> None:
    """Do what the value asks for, behind what was written for its record."""
    match value:
        case "bad":
            raise ValueError("no good")
        case "stop":
            app.stop()
        case "never ends":
            say("never ends")
            while True:
                time.sleep(0.01)
        case _:
            pass


async def special_async(value: str) -> None:
    match value.split():
        case ["open", door]:
            doors.setdefault(door, asyncio.Event()).set()
        case ["wait", door]:
            say("waits", door=door)
            await doors.setdefault(door, asyncio.Event()).wait()
            say("waited", door=door)
        case ["never", "ends"]:
            say("never ends")
            await asyncio.Event().wait()
        case ["cancelled"]:
            never = asyncio.get_running_loop().create_future()
            never.cancel()
            await never
        case _:
            special(value)


def process(batch: Batch[str, str], ctx: Context) -> None:
    say("batch", partition=batch.partition, base=batch.base_offset, next=batch.next_offset)
    point("records")
    for key, value in batch.items():
        append(key, value, ctx)
        special(value or "")
    point("handled")


async def process_async(batch: Batch[str, str], ctx: Context) -> None:
    say("batch", partition=batch.partition, base=batch.base_offset, next=batch.next_offset)
    with alone(batch.partition):
        for key, value in batch.items():
            append(key, value, ctx)
            await asyncio.sleep(PAUSE)
            await special_async(value or "")
            if PROGRESS:
                ctx.progress()
        await held("handled")


def each(record: Record[str, str], ctx: Context) -> None:
    first(record)
    append(record.key, record.value, ctx)
    special(record.value or "")
    point("handled")


async def each_async(record: Record[str, str], ctx: Context) -> None:
    first(record)
    with alone(record.partition):
        append(record.key, record.value, ctx)
        await asyncio.sleep(PAUSE)
        await special_async(record.value or "")
        await held("handled")


if __name__ == "__main__":
    handlers = {"process": process, "async process": process_async}
    if STYLE in handlers:
        app.process(source, tables=[seen], on_error=on_error())(handlers[STYLE])
    else:
        app.each(source, tables=[seen], on_error=on_error())(
            each_async if STYLE == "async each" else each
        )
    if os.environ.get("APP_BAR") == "plain":
        sys.modules["rich"] = None  # type: ignore[assignment]
    say("start")
    app.run()
    say("end")
