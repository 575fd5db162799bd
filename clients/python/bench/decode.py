"""Decode frames and bring a dict up to date; how far from what Python can do at all.

Run: python clients/python/bench/decode.py [--records N] [--keys N]. Every figure is the best of
several interleaved rounds. The floor is dict.update with keys and values that are bytes already.
"""

from __future__ import annotations

import argparse
import random
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pillion._batch import Batch
from pillion._encode import Record as Row
from pillion._encode import cut, encode
from pillion._frames import RESTORE, parse
from pillion._tasks import Task
from pillion.client import MemoryStore, SqliteStore

TASK = Task("bench/0", "bench", 0, "active", 1, {}, {}, {})
ROUNDS = 7


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--keys", type=int, default=50_000)
    options.add_argument("--value", type=int, default=110)
    chosen = options.parse_args()
    plain = frames(chosen.records, chosen.keys, chosen.value, 0)
    tombs = frames(chosen.records, chosen.keys, chosen.value, 50)
    n = chosen.records
    results = measure(
        {
            "floor": lambda: floor(columns(plain)),
            "rowwise": lambda: rowwise(row_blobs(plain)),
            "parse": lambda: parse_all(plain),
            "apply": lambda: apply(plain),
            "apply-tombstones": lambda: apply(tombs),
            "iterate": lambda: iterate(plain),
        }
    )
    for name, seconds in results.items():
        report(f"python/decode/{name}", n / seconds / 1e6, "Mrec/s")
    report("python/decode/apply/vs-floor", results["floor"] / results["apply"], "x")
    report("python/decode/apply/vs-rowwise", results["rowwise"] / results["apply"], "x")
    with tempfile.TemporaryDirectory() as directory:
        seconds = sqlite(plain, Path(directory) / "bench")
    report("python/store/sqlite-restore", n / seconds / 1e6, "Mrec/s")


def frames(records: int, keys: int, value: int, tombstones: int) -> list[bytes]:
    """Frames of 256 KiB; one record in `tombstones` is one."""
    rng = random.Random(1)
    rows = [
        Row(
            b"key-%010d" % rng.randrange(keys),
            None if tombstones and rng.randrange(tombstones) == 0 else rng.randbytes(value),
        )
        for _ in range(records)
    ]
    made: list[bytes] = []
    base = 0
    for run in cut(rows, 256 << 10, 1 << 30, "bench"):
        end = base + len(run)
        pairs = [row.key for row in run], [row.value for row in run]
        made.append(encode(RESTORE, 1, 1, base, end, *pairs, checkpoint=f"v1:{end}"))
        base = end
    return made


def batch(data: bytes) -> Batch:
    return Batch(parse(data), TASK, "bench", "bench")


def apply(data: list[bytes]) -> Callable[[], object]:
    def work() -> None:
        store = MemoryStore()
        for frame in data:
            store.apply(batch(frame))

    return work


def parse_all(data: list[bytes]) -> Callable[[], object]:
    return lambda: [parse(frame) for frame in data]


def iterate(data: list[bytes]) -> Callable[[], object]:
    def work() -> None:
        for frame in data:
            for _key, _value in batch(frame).items():
                pass

    return work


def columns(data: list[bytes]) -> list[tuple[list[bytes | None], list[bytes | None]]]:
    return [(b.keys, b.values) for b in map(batch, data)]


def floor(data: list[tuple[list[bytes | None], list[bytes | None]]]) -> Callable[[], object]:
    def work() -> None:
        # A key's hash is kept in the object: fresh objects, as a decoder makes them.
        table: dict[bytes | None, bytes | None] = {}
        for keys, values in data:
            table.update(zip(keys, values, strict=True))

    return work


def row_blobs(data: list[bytes]) -> list[bytes]:
    """The same records row after row with 32-bit lengths."""
    pack = struct.Struct("<II").pack
    return [
        b"".join(
            part
            for key, value in batch(frame).items()
            for part in (pack(len(key or b""), len(value or b"")), key or b"", value or b"")
        )
        for frame in data
    ]


def rowwise(data: list[bytes]) -> Callable[[], object]:
    unpack = struct.Struct("<II").unpack_from

    def work() -> None:
        table: dict[bytes, bytes] = {}
        for blob in data:
            at, end = 0, len(blob)
            while at < end:
                key_size, value_size = unpack(blob, at)
                at += 8
                key = blob[at : at + key_size]
                at += key_size
                table[key] = blob[at : at + value_size]
                at += value_size

    return work


def measure(cases: dict[str, Callable[[], Callable[[], object]]]) -> dict[str, float]:
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, prepare in cases.items():
            work = prepare()
            began = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def sqlite(data: list[bytes], path: Path) -> float:
    store = SqliteStore(path, "bench")
    began = time.perf_counter()
    for frame in data:
        store.apply(batch(frame))
    store.flush()
    seconds = time.perf_counter() - began
    store.close()
    return seconds


def report(name: str, value: float, unit: str) -> None:
    print(f"BENCH {name} {value:.2f} {unit}")


if __name__ == "__main__":
    main()
