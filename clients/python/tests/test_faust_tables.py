"""A Worker goes on with the tables of real Faust workers: rows, and the bytes that it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pillion
from aio import run
from faust_data import Event, events, fold, zoo
from faust_stage import restore, send
from pillion import Batch, Context, Worker
from pillion.testing import FakeSidecar


def memory(_: Path) -> pillion.Stores:
    return pillion.MemoryStores()


@run
@pytest.mark.parametrize("stores", [memory, pillion.SqliteStores])
@pytest.mark.parametrize("app", ["zoo", "zoo-orjson"])
async def test_rows_are_as_faust_had_them_and_are_written_as_faust_wrote_them(
    tmp_path: Path, app: str, stores: Callable[[Path], pillion.Stores]
) -> None:
    declared = zoo(app)
    logs = {name: f"{app}-{name}-changelog" for name in declared}
    async with FakeSidecar() as sidecar:
        worker = Worker(app, url=sidecar.url, stores=stores(tmp_path), commit_interval=0)
        steps = worker.topic("steps", key=bytes, value=str)
        tables = {
            name: worker.table(name, key=keys, value=values, changelog=logs[name])
            for name, (keys, values, _) in declared.items()
        }
        seen: dict[str, list[Any]] = {name: [] for name in tables}

        @worker.process(steps, tables=list(tables.values()))
        def write_again(batch: Batch[bytes, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
            for name, table in tables.items():
                rows = ctx[table]
                for key, value in list(rows.items()):
                    seen[name].append((key, value))
                    if value is None:
                        del rows[key]
                    else:
                        rows[key] = value

        async with worker.running():
            fake = await sidecar.accept()
            declarations = [table for each in fake.hello.sets for table in each.tables]
            assert {table.name: table.changelog for table in declarations} == logs
            for partition in (0, 1):
                found = {name: events(topic, partition) for name, topic in logs.items()}
                task = await restore(fake, "steps", partition, found)
                await send(fake, task, Event(partition, 0, b"", b'"go on"'))
                commit = await fake.commit()
                for name in logs:
                    rows = fold(found[name])
                    expected = {k: None if v == b"null" else v for k, v in rows.items()}
                    assert dict(commit.changelog.get(name, [])) == expected, name
                await fake.committed(commit)
        for name, (_, _, rows) in declared.items():
            assert sorted(map(repr, seen[name])) == sorted(map(repr, rows)), name
