"""The conformance job of spec/scenarios/README.md, with the public API of this package alone.

Run by ``pillion conformance --level standby -- python clients/python/conformance/worker.py``.
"""

import asyncio
import os
import time
from pathlib import Path

import pillion.client as pillion

HERE = Path(os.environ["PILLION_CONFORMANCE_DIR"])
TABLES = os.environ["PILLION_CONFORMANCE_JOB"] == "tables"
Change = tuple[bytes | None, bytes | None]


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


def count(tables: pillion.Tables, task: pillion.Task, key: bytes, value: bytes | None) -> Change:
    """Count one record and say what it changed."""
    counts = tables[task]["counts"]
    assert isinstance(counts, pillion.TableView)
    if value is None:
        counts.pop(key, None)
        return key, None
    number = b"%d" % (int(counts.get(key, b"0")) + 1)
    counts[key] = number
    found = (tables[task]["names"].get(key), tables.lookup("places", key))
    return key, b" ".join([number, *(each for each in found if each is not None)])


async def process(tables: pillion.Tables, task: pillion.Task, batch: pillion.Batch) -> None:
    """Handle one batch and commit it."""
    changes: list[Change] = []
    for key, value in batch.items():
        await hold(value)
        if batch.stale:
            return  # the epoch is over: its tables are closed
        if not TABLES:
            changes.append((key, value))
        elif key is not None:
            changes.append(count(tables, task, key, value))
    await tables.commit(batch, outputs={"changes": changes})


async def main() -> None:
    """Connect, and process until the connection ends for good."""
    own = [pillion.Table("counts"), pillion.SourceTable("names", "names")]
    connection = pillion.connect(
        group="conformance",
        sets=[pillion.Set("words", ["words"], own if TABLES else [])],
        globals=[pillion.Global("places", "places")] if TABLES else [],
        outputs=["changes"],
    )
    async with connection as conn:
        with pillion.Tables(conn, pillion.SqliteStores(HERE / "stores")) as tables:
            async for event in tables:
                if isinstance(event, pillion.Records):
                    await process(tables, event.task, event.batch)


if __name__ == "__main__":
    pillion.run(main, connect_timeout=None)
