"""Count records by key in a table in memory, as anyone would write it.

worker.py SOURCE, as the child of `pillion run`, which says which group it is.
"""

from __future__ import annotations

import sys

from pillion import Batch, Context, MemoryStores, Worker

app = Worker("count", stores=MemoryStores(), commit_interval=0.1)
source = app.topic(sys.argv[1], key=str, value=bytes)
counts = app.table("counts", key=str, value=int, default=int)


@app.process(source, tables=[counts])
def count(batch: Batch[str, bytes], ctx: Context) -> None:
    """Count a batch of one partition."""
    rows = ctx[counts]
    for key in batch.keys:
        if key is not None:
            rows[key] += 1


if __name__ == "__main__":
    app.run()
