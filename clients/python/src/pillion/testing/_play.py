"""play(): give a worker records as a group of one would, and keep what it commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .. import _messages as m
from .._codes import CloseCode
from ._fake import FakeSidecar
from ._worker import FakeTask, FakeWorker

Pair = tuple[bytes | None, bytes | None]


@dataclass(slots=True)
class Played:
    """What a worker made of its records."""

    tables: dict[str, dict[bytes, bytes]] = field(default_factory=dict[str, dict[bytes, bytes]])
    """Rows of each table that its changelog adds up to."""
    outputs: dict[str, list[Pair]] = field(default_factory=dict[str, list[Pair]])
    positions: dict[str, int] = field(default_factory=dict[str, int])
    """The committed position of each source."""
    commits: int = 0


async def play(
    sidecar: FakeSidecar,
    records: Mapping[str, Sequence[Pair]],
    *,
    tables: Mapping[str, Sequence[Pair]] | None = None,
    batch: int = 100,
) -> Played:
    """Serve the next worker: partition 0 of each set it declares, its tables, then the records.

    tables holds what source and global tables (and changelogs) begin with. Returns when all
    records are committed; the worker is then told that the sidecar has drained.
    """
    worker = await sidecar.accept()
    played = Played(outputs={topic: [] for topic in worker.hello.outputs})
    for declared in worker.hello.globals:
        await _open(worker, await worker.assign(declared.name), tables or {}, played)
    for declared in worker.hello.sets:
        task = await worker.assign(declared.name)
        await _open(worker, task, tables or {}, played)
        for topic in declared.sources:
            rows = records.get(topic, ())
            for at in range(0, len(rows), batch):
                await worker.records(task, topic, rows[at : at + batch])
            while played.positions.get(topic, 0) < len(rows):
                await _commit(worker, played)
    await worker.close(CloseCode.DRAINED)
    return played


async def _open(
    worker: FakeWorker, task: FakeTask, tables: Mapping[str, Sequence[Pair]], played: Played
) -> None:
    await worker.expect(m.Opened)
    for table in task.assign.tables:
        rows = tables.get(table.name, ())
        if rows:
            await worker.restore(task, table.name, rows)
        if table.kind == "changelog":
            played.tables[table.name] = {}
            _apply(played.tables[table.name], rows)
    await worker.restored(task)


async def _commit(worker: FakeWorker, played: Played) -> None:
    commit = await worker.commit()
    for name, rows in commit.changelog.items():
        _apply(played.tables[name], rows)
    for topic, rows in commit.outputs.items():
        played.outputs[topic] += rows
    played.positions.update(commit.message.source_next)
    played.commits += 1
    await worker.committed(commit)


def _apply(table: dict[bytes, bytes], rows: Sequence[Pair]) -> None:
    for key, value in rows:
        if key is not None and value is not None:
            table[key] = value
        elif key is not None:
            table.pop(key, None)
