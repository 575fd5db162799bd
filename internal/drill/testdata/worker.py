"""The drill's worker: counts and sums per key, joined with a source table; one output per input.

DRILL_IN, DRILL_REF, DRILL_OUT: topics. DRILL_STATE: a directory with the stores, and with files by
which the drill asks for something:

    slow             each record takes as many seconds as the file says
    slow-restore     each batch of a restore does
    die-before-flush the process kills itself when a commit is whole in Kafka, before its store has it

A full disk is not played here: see full.c. What happens is told on stdout, a JSON object a line.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pillion._tables as tables
import pillion.client as client
from pillion import Context, Record, Worker
from pillion.stores._sqlite import SqliteStore

STATE = Path(os.environ["DRILL_STATE"])


@dataclass(frozen=True)
class Input:
    id: int
    amount: int


@dataclass(frozen=True)
class Total:
    count: int = 0
    sum: int = 0


@dataclass(frozen=True)
class Ref:
    factor: int
    rev: int


@dataclass(frozen=True)
class Output:
    id: int
    amount: int
    count: int
    sum: int
    factor: int
    rev: int


app = Worker(state_dir=STATE / "tables", commit_interval=0.05, window=32 << 10)
source = app.topic(os.environ["DRILL_IN"], key=str, value=Input)
ref = app.source_table("ref", key=str, value=Ref, topic=os.environ["DRILL_REF"])
totals = app.table("totals", key=str, value=Total, default=Total)
out = app.output(os.environ["DRILL_OUT"], key=str, value=Output)


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, "at": time.time(), **fields}), flush=True)


def asked(name: str) -> str | None:
    try:
        return (STATE / name).read_text()
    except FileNotFoundError:
        return None


@app.each(source, tables=[totals, ref])
async def handle(record: Record[str, Input], ctx: Context) -> None:
    if slow := asked("slow"):
        await asyncio.sleep(float(slow))
    assert record.key is not None
    assert record.value is not None
    known, value = ctx[ref].get(record.key), record.value
    was = ctx[totals][record.key]
    total = Total(was.count + 1, was.sum + value.amount)
    ctx[totals][record.key] = total
    factor, rev = (known.factor, known.rev) if known is not None else (0, 0)
    line = Output(value.id, value.amount, total.count, total.sum, factor, rev)
    ctx.send(out, key=record.key, value=line)


@app.watch
def on_event(event: client.Event) -> None:
    match event:
        case client.Assigned(task):
            say("assigned", task=task.name, role=task.role)
        case client.Restore(_, _):
            if slow := asked("slow-restore"):
                time.sleep(float(slow))
        case client.Restored(task):
            say("restored", task=task.name)
        case client.Promoted(task, _):
            say("promoted", task=task.name)
        case client.Demoted(task, _):
            say("demoted", task=task.name)
        case client.Revoking(task, _, code):
            say("revoking", task=task.name, text=code)
        case client.Lost(task, code, message):
            say("lost", task=task.name, text=f"{code}: {message}")
        case client.Reset(task, table, code, _):
            say("reset", task=task.name, text=f"{table}: {code}")
        case _:
            pass


def tell_commits() -> None:
    """Say when a commit begins, and when its answer has been acted on."""
    began, number = tables.Tables.send, 0

    def send(self: tables.Tables, task: Any, *args: Any, **named: Any) -> Any:
        nonlocal number
        number += 1
        mine = number
        say("commit", task=task.name, id=mine)
        try:
            sent = began(self, task, *args, **named)
        except BaseException:
            say("answer", task=task.name, id=mine, ok=False)
            raise

        def ended(future: Any) -> None:
            say("answer", task=task.name, id=mine, ok=not future.cancelled() and future.exception() is None)

        sent.add_done_callback(ended)
        return sent

    tables.Tables.send = send  # type: ignore[method-assign]


def die_before_flush() -> None:
    """Let the drill kill this process between `committed` and the store's flush."""
    takes = SqliteStore.apply_commit

    def apply_commit(self: SqliteStore, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
        if asked("die-before-flush") is not None:
            (STATE / "die-before-flush").unlink()
            say("dies", text="between committed and the store's flush")
            os.kill(os.getpid(), signal.SIGKILL)
        takes(self, writes, checkpoint)

    SqliteStore.apply_commit = apply_commit  # type: ignore[method-assign]


if __name__ == "__main__":
    say("up")
    tell_commits()
    die_before_flush()
    app.run()
