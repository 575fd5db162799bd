"""The conformance job of spec/scenarios/README.md, written with Worker.

Run by ``pillion conformance --level standby -- python clients/python/conformance/app.py each``;
with batches in place of each it takes whole batches.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pillion import (
    Batch,
    Context,
    GlobalTable,
    Record,
    SourceTable,
    SqliteStores,
    Table,
    Worker,
)

HERE = Path(os.environ["PILLION_CONFORMANCE_DIR"])

BATCHES = sys.argv[1:] == ["batches"]

app = Worker(
    "conformance", stores=SqliteStores(HERE / "stores"), commit_interval=0.002, connect_timeout=60
)
words = app.topic("words", key=bytes, value=bytes)
changes = app.output("changes", key=bytes, value=bytes)


async def hold(value: bytes | None) -> None:
    """Stay inside the handler until the player lets it go."""
    verb, _, name = (value or b"").partition(b" ")
    if verb not in (b"wait", b"block"):
        return
    (HERE / f"{name.decode()}.in").touch()
    go = HERE / f"{name.decode()}.go"
    while not go.exists():
        if verb == b"wait":
            await asyncio.sleep(0.002)
        else:
            time.sleep(0.002)  # noqa: ASYNC251 - a handler that blocks the loop is the point


def stateless() -> None:
    """Records in, the same records out."""

    async def on_word(key: bytes | None, value: bytes | None, ctx: Context) -> None:
        await hold(value)
        ctx.send(changes, key=key, value=value)

    handle(on_word, [])


def tables() -> None:
    """Count, and say what each record has changed."""
    counts = app.table("counts", key=bytes, value=bytes, default=lambda: b"0")
    names = app.source_table("names", key=bytes, value=bytes)
    places = app.global_table("places", key=bytes, value=bytes)

    async def on_word(key: bytes | None, value: bytes | None, ctx: Context) -> None:
        rows = ctx[counts]
        await hold(value)
        if key is None:
            return
        if value is None:
            rows.pop(key, None)
            ctx.send(changes, key=key)
            return
        rows[key] = b"%d" % (int(rows[key]) + 1)
        found = (ctx[names].get(key), ctx[places].get(key))
        told = b" ".join([rows[key], *(each for each in found if each is not None)])
        ctx.send(changes, key=key, value=told)

    handle(on_word, [counts, names, places])


def handle(
    on_word: Callable[[bytes | None, bytes | None, Context], Awaitable[None]],
    used: Sequence[Table[bytes, bytes] | SourceTable[bytes, bytes] | GlobalTable[bytes, bytes]],
) -> None:
    """Take records one by one, or in batches."""

    async def on_record(record: Record[bytes, bytes], ctx: Context) -> None:
        await on_word(record.key, record.value, ctx)

    async def on_batch(batch: Batch[bytes, bytes], ctx: Context) -> None:
        for key, value in batch.items():
            await on_word(key, value, ctx)

    if BATCHES:
        app.process(words, tables=used)(on_batch)
    else:
        app.each(words, tables=used)(on_record)


if __name__ == "__main__":
    (tables if os.environ["PILLION_CONFORMANCE_JOB"] == "tables" else stateless)()
    app.run()
