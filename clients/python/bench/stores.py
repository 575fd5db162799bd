"""Restore, get, set and iterate in each store; tables smaller and larger than the caches.

Run: python clients/python/bench/stores.py [--rows N] [--large N] [--rounds N] [--stores NAME ...]
[--against SRC].
Every store and size runs in a fresh process, in rounds that alternate; figures are medians.
SRC is the src directory of another checkout, whose stores are then measured in the same rounds.

restore: frames of 256 KiB, each key once, in random order, applied and flushed.
get: random keys that are there. set: commits of 1,000 random rows. items: the whole table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from pillion import client
from pillion._batch import Batch
from pillion._encode import encode
from pillion._frames import RESTORE, parse
from pillion._messages import TableStream
from pillion._tasks import Task
from pillion.stores import Stores

STORES = {"memory": "MemoryStores", "sqlite": "SqliteStores", "rocksdb": "RocksStores"}
TASK = Task(
    "b/0", "b", 0, "active", 1, {"t": TableStream("t", "t-changelog", "changelog", 1)}, {}, {}
)
FRAME_ROWS = (256 << 10) // 222  # 14 and 200 bytes, and two lengths
GETS, COMMITS, COMMIT_ROWS, VALUE = 200_000, 100, 1_000, 200
Case = tuple[str, str, int, str]  # where from, store, rows, source directory or ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--large", type=int, default=2_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    options.add_argument("--against", default="", metavar="SRC")
    options.add_argument("--child", default="", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        print(json.dumps(measure(chosen.child, chosen.rows)))
        return
    cases = [
        (f"python/stores{label}", store, rows, source)
        for rows in (chosen.rows, chosen.large)
        for store in chosen.stores
        for label, source in (("", ""), ("/against", chosen.against))
        if not label or source
    ]
    found: dict[Case, list[dict[str, float]]] = {}
    for n in range(chosen.rounds):
        for case in cases if n % 2 == 0 else reversed(cases):
            if figures := run(case):
                found.setdefault(case, []).append(figures)
    for case in cases:
        where, store, rows, _ = case
        for op in found[case][0] if case in found else ():
            size = "" if rows == chosen.rows else "/large"
            value = median(figures[op] for figures in found[case])
            print(f"BENCH {where}/{store}/{op}{size} {value:.0f} rows/s")


def run(case: Case) -> dict[str, float]:
    """Measure in a process of its own."""
    _, store, rows, source = case
    command = [sys.executable, __file__, "--child", store, "--rows", str(rows)]
    env = {**os.environ, "PYTHONPATH": source} if source else None
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def measure(name: str, rows: int) -> dict[str, float]:
    """Rows a second of each operation; nothing when this source has no such store."""
    if not hasattr(client, STORES[name]):
        return {}
    rng = random.Random(1)
    data = list(frames(rng, rows))
    with tempfile.TemporaryDirectory() as directory:
        made = getattr(client, STORES[name])
        stores: Stores = made() if name == "memory" else made(Path(directory))
        store = stores.open(TASK, "t")
        figures: dict[str, float] = {}

        began = time.perf_counter()
        for frame in data:
            store.apply(Batch(parse(frame), TASK, "t-changelog", "t"))
        store.flush()
        figures["restore"] = rows / (time.perf_counter() - began)
        data.clear()

        keys = [key(rng.randrange(rows)) for _ in range(GETS)]
        began = time.perf_counter()
        for each in keys:
            store.get(each)
        figures["get"] = GETS / (time.perf_counter() - began)

        commits = [
            {key(rng.randrange(rows)): rng.randbytes(VALUE) for _ in range(COMMIT_ROWS)}
            for _ in range(COMMITS)
        ]
        began = time.perf_counter()
        for n, commit in enumerate(commits):
            store.apply_commit(commit, f"v1:{rows + n}")
        figures["set"] = COMMITS * COMMIT_ROWS / (time.perf_counter() - began)

        began = time.perf_counter()
        for _ in store.items():
            pass
        figures["items"] = rows / (time.perf_counter() - began)
        assert len(store) == rows
        store.close()
    return figures


def key(n: int) -> bytes:
    return b"key-%010d" % n


def frames(rng: random.Random, rows: int) -> Iterator[bytes]:
    order = list(range(rows))
    rng.shuffle(order)
    for base in range(0, rows, FRAME_ROWS):
        keys = [key(n) for n in order[base : base + FRAME_ROWS]]
        values = [rng.randbytes(VALUE) for _ in keys]
        end = base + len(keys)
        yield encode(RESTORE, 1, 1, base, end, keys, values, checkpoint=f"v1:{end}")


if __name__ == "__main__":
    main()
