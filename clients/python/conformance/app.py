"""The conformance job of spec/scenarios/README.md, written with Worker.

Run by ``pillion conformance --level standby -- python clients/python/conformance/app.py``.
"""

import asyncio
import os
import time
from pathlib import Path

from pillion import Context, Record, SqliteStores, Worker

HERE = Path(os.environ["PILLION_CONFORMANCE_DIR"])

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

    @app.each(words)
    async def on_word(record: Record[bytes, bytes], ctx: Context) -> None:
        await hold(record.value)
        ctx.send(changes, key=record.key, value=record.value)


def tables() -> None:
    """Count, and say what each record has changed."""
    counts = app.table("counts", key=bytes, value=bytes, default=lambda: b"0")
    names = app.source_table("names", key=bytes, value=bytes)
    places = app.global_table("places", key=bytes, value=bytes)

    @app.each(words, tables=[counts, names, places])
    async def on_word(record: Record[bytes, bytes], ctx: Context) -> None:
        key, rows = record.key, ctx[counts]
        await hold(record.value)
        if key is None:
            return
        if record.value is None:
            rows.pop(key, None)
            ctx.send(changes, key=key)
            return
        rows[key] = b"%d" % (int(rows[key]) + 1)
        found = (ctx[names].get(key), ctx[places].get(key))
        told = b" ".join([rows[key], *(each for each in found if each is not None)])
        ctx.send(changes, key=key, value=told)


if __name__ == "__main__":
    (tables if os.environ["PILLION_CONFORMANCE_JOB"] == "tables" else stateless)()
    app.run()
