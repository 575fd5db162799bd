"""How fast a Worker is beside a loop over the protocol-level client that does the same job.

The job: count records by key in a table in memory. The sidecar is a FakeSidecar in the same
process, so figures are lower than a worker's own, and ratios nearer to 1. Run by ``make bench``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pillion.client as low
from pillion import Batch, Context, MemoryStores, Record, Worker
from pillion import _messages as m
from pillion._encode import encode
from pillion._frames import RECORDS
from pillion.testing import FakeSidecar, FakeTask, FakeWorker

FRAMES, ROWS, KEYS, ROUNDS = 200, 1_000, 5_000, 3
WINDOW = 1 << 20


@dataclass
class Stats:
    """A row of the dataclass job."""

    count: int = 0
    total: int = 0


async def feed(worker: FakeWorker, task: FakeTask) -> float:
    """Send all frames, land what is committed; the seconds until all of it is."""
    stream = task.assign.sources[0].stream
    frames: list[bytes] = []
    for f in range(FRAMES):
        base = f * ROWS
        keys = [b"key-%d" % ((base + i) * 7919 % KEYS) for i in range(ROWS)]
        frames.append(
            encode(RECORDS, stream, task.epoch, base, base + ROWS, keys, [b"v" * 100] * ROWS)
        )
    began = time.perf_counter()
    sender = asyncio.create_task(send(worker, stream, frames))
    end = 0
    while end < FRAMES * ROWS:
        commit = await worker.commit()
        end = commit.message.source_next["in"]
        await worker.committed(commit)
    await sender
    return time.perf_counter() - began


async def send(worker: FakeWorker, stream: int, frames: list[bytes]) -> None:
    """Send frames as the worker's credit allows."""
    sent = 0

    def allowed() -> bool:
        granted = worker.granted
        return sent < min(granted.streams.get(stream, WINDOW), granted.connection or WINDOW)

    for frame in frames:
        await worker.until(allowed)
        await worker.send_raw(frame)
        sent += len(frame)


async def client(sidecar: FakeSidecar) -> None:
    """The job over the protocol-level client."""
    sets = [low.Set("in", ["in"], ["counts"])]
    async with low.connect(sidecar.url, sets=sets, group="g") as conn:
        with low.Tables(conn) as tables:
            async for event in tables:
                if isinstance(event, low.Records):
                    counts = tables[event.task]["counts"]
                    for key in event.batch.keys:
                        assert key is not None
                        counts[key] = b"%d" % (int(counts.get(key, b"0")) + 1)
                    await tables.commit(event.batch)


async def process(sidecar: FakeSidecar) -> None:
    """The job under @app.process."""
    app = Worker("g", url=sidecar.url, stores=MemoryStores())
    source = app.topic("in", key=str, value=bytes)
    counts = app.table("counts", key=str, value=int, default=int)

    @app.process(source, tables=[counts])
    def on_batch(batch: Batch[str, bytes], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        rows = ctx[counts]
        for key in batch.keys:
            assert key is not None
            rows[key] += 1

    await hold(app)


async def each(sidecar: FakeSidecar) -> None:
    """The job under @app.each."""
    app = Worker("g", url=sidecar.url, stores=MemoryStores())
    source = app.topic("in", key=str, value=bytes)
    counts = app.table("counts", key=str, value=int, default=int)

    @app.each(source, tables=[counts])
    def on_record(record: Record[str, bytes], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        assert record.key is not None
        ctx[counts][record.key] += 1

    await hold(app)


async def mutable(sidecar: FakeSidecar) -> None:
    """The job under @app.process, with rows that are changed in place."""
    app = Worker("g", url=sidecar.url, stores=MemoryStores())
    source = app.topic("in", key=str, value=bytes)
    stats = app.table("counts", key=str, value=Stats, default=Stats)

    @app.process(source, tables=[stats])
    def on_batch(batch: Batch[str, bytes], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        rows = ctx[stats]
        for key, value in batch.items():
            assert key is not None
            row = rows[key]
            row.count += 1
            row.total += len(value or b"")

    await hold(app)


async def hold(app: Worker) -> None:
    """Run an app until it is cancelled."""
    async with app.running():
        await asyncio.Event().wait()


async def measure(job: Callable[[FakeSidecar], Awaitable[None]]) -> float:
    """Records a second."""
    async with FakeSidecar(limits=m.Limits(128 << 20, 1 << 20, 64 << 20, 2)) as sidecar:
        running = asyncio.ensure_future(job(sidecar))
        worker = await sidecar.accept()
        task = await worker.start("in")
        seconds = await feed(worker, task)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return FRAMES * ROWS / seconds


def main() -> None:
    """Print the best of some rounds, taken in turns."""
    jobs = {"client": client, "process": process, "each": each, "mutable": mutable}
    best = dict.fromkeys(jobs, 0.0)
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            best[name] = max(best[name], asyncio.run(measure(job)))
    for name, rate in best.items():
        print(f"BENCH python/worker/{name} {rate:.0f} records/s")
    for name in ("process", "each", "mutable"):
        print(f"BENCH python/worker/{name}/vs-client {best[name] / best['client']:.2f} x")


if __name__ == "__main__":
    main()
