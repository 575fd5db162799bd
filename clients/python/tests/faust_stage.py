"""Drives a worker with what Faust wrote: tables as they were, records with their timestamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faust_data import Event
from pillion import _messages as m
from pillion._encode import encode
from pillion._frames import RECORDS
from pillion.testing import FakeTask, FakeWorker


async def restore(
    worker: FakeWorker, set_: str, partition: int, logs: Mapping[str, Sequence[Event]]
) -> FakeTask:
    """Open a task whose changelogs hold these records."""
    task = await worker.assign(set_, partition)
    await worker.expect(m.Opened)
    for table, found in logs.items():
        await worker.restore(task, table, [(each.key, each.value) for each in found])
    await worker.restored(task)
    return task


async def send(worker: FakeWorker, task: FakeTask, event: Event) -> None:
    """Send one record of the task's only source."""
    stream = task.assign.sources[0].stream
    base = task.positions[stream]
    task.positions[stream] = base + 1
    keys, values, stamps = [event.key], [event.value], [event.timestamp]
    frame = encode(RECORDS, stream, task.epoch, base, base + 1, keys, values, timestamps=stamps)
    await worker.send_raw(frame)
