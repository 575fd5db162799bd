"""Restore a changelog into dicts: a worker as anyone would write it with plain dicts as stores.

Each task has its own, as a table has with every store of the client (and of Kafka Streams).

worker.py SOURCE CHANGELOG PARTITIONS FIGURES, as the child of `pillion run`.
"""

from __future__ import annotations

import os
import sys

from figures import Window

import pillion.client as pillion


async def main() -> None:
    source, changelog, partitions, figures = sys.argv[1:]
    tables: dict[str, dict[bytes, bytes]] = {}
    window: Window | None = None
    records = whole = 0
    declared = pillion.Set("bench", [source], [pillion.Table("table", changelog)])
    async with pillion.connect(sets=[declared]) as conn:
        async for event in conn:
            match event:
                case pillion.Restore(task, batch):
                    batch.apply_to(tables[task.name])
                    records += len(batch)
                case pillion.Assigned(task):
                    window = window or Window(sidecar=os.getppid())
                    tables[task.name] = {}
                    conn.opened(task, {"table": None})
                case pillion.Restored(_):
                    whole += 1
                    if whole == int(partitions) and window is not None:
                        window.close()
                        window.write(figures, tables.values(), records)
                        return
                case pillion.Lost(task, code, message):
                    sys.exit(f"{task.name} was lost ({code}): {message}")
                case _:
                    pass


if __name__ == "__main__":
    pillion.run(main)
