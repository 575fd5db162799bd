"""docs/migrating-from-faust.md: its programs run, on what its Faust application wrote."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aio import run
from faust_data import bare, events, fold
from faust_stage import restore, send
from pillion._codes import CloseCode
from pillion.testing import FakeSidecar, TestDriver

DOC = Path(__file__).resolve().parents[3] / "docs/migrating-from-faust.md"
FAUST, SHOP, TEST, LOOK, EXPIRE = re.findall(
    r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL
)
LOGS = {name: f"shop-{name}-changelog" for name in ("accounts", "per_minute")}
METADATA = 'faust.json(Account, namespace="faust_shop.Account")'


@asynccontextmanager
async def program(
    sidecar: FakeSidecar, directory: Path, name: str, **files: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run one of the files, in a directory that has all of them."""
    for each, text in files.items():
        (directory / f"{each}.py").write_text(text, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        f"{name}.py",
        env={"PILLION_URL": sidecar.url, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def test_the_faust_application_is_the_one_that_wrote_the_data() -> None:
    assert FAUST in (Path(__file__).parent / "data/faust_shop.py").read_text(encoding="utf-8")


@run
@pytest.mark.parametrize("metadata", [False, True])
async def test_the_worker_goes_on_where_faust_was(tmp_path: Path, metadata: bool) -> None:
    """Faust's tables after its first order of each partition, then the orders that came after.

    What the worker writes for each is what Faust wrote for it.
    """
    shop = SHOP.replace("faust.json(Account)", METADATA) if metadata else SHOP
    assert metadata == (METADATA in shop)
    async with FakeSidecar() as sidecar, program(sidecar, tmp_path, "shop", shop=shop) as process:
        fake = await sidecar.accept()
        outputs: list[tuple[bytes | None, bytes | None]] = []
        for partition in (0, 1):
            written = {table: events(topic, partition) for table, topic in LOGS.items()}
            orders = events("orders", partition)
            assert {len(each) for each in written.values()} == {len(orders)}
            logs = {table: each[:1] for table, each in written.items()}
            task = await restore(fake, "orders", partition, logs)
            for at, order in enumerate(orders[1:], 1):
                await send(fake, task, order)
                commit = await fake.commit()
                due = {
                    table: [(each[at].key, each[at].value if metadata else bare(each[at].value))]
                    for table, each in written.items()
                }
                assert commit.changelog == due
                outputs += commit.outputs.get("large-orders", [])
                await fake.committed(commit)
        assert outputs == [(b"zo\xc3\xab", b'{"item":"desk","cents":12000}')]
        await fake.close(CloseCode.DRAINED)
        assert await process.wait() == 0
    (_, sofa), (_, desk) = [(each.key, bare(each.value)) for each in events("large-orders")]
    assert (sofa, desk) == (b'{"item":"sofa","cents":45000}', outputs[0][1])


@run
async def test_looking_reads_every_row_and_writes_none(tmp_path: Path) -> None:
    async with (
        FakeSidecar() as sidecar,
        program(sidecar, tmp_path, "look", shop=SHOP, look=LOOK) as process,
    ):
        fake = await sidecar.accept()
        declared = [each for made in fake.hello.sets for each in made.tables]
        assert {each.name: each.source_topic for each in declared} == LOGS  # read, not written
        for partition in (0, 1):
            logs = {table: events(topic, partition) for table, topic in LOGS.items()}
            await restore(fake, "orders", partition, logs)
        assert process.stdout is not None
        due = {
            f"orders/{partition} {table} {len(fold(events(topic, partition)))} rows: "
            for table, topic in LOGS.items()
            for partition in (0, 1)
        }
        while due:
            line = (await process.stdout.readline()).decode()
            due -= {each for each in due if line.startswith(each)}
        await fake.close(CloseCode.DRAINED)
        assert await process.wait() == 0


@run
async def test_its_test_passes(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(TEST, encoding="utf-8")
    pytest_ = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path
    )
    assert await pytest_.wait() == 0


def test_old_windows_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "shop_that_expires"
    (tmp_path / f"{name}.py").write_text(f"import time\n{SHOP}\n{EXPIRE}", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    shop: Any = importlib.import_module(name)
    now = int(time.time() * 1000)
    with TestDriver(shop.app) as driver:
        for age in (0, 3600, 86_400 - 120, 86_400 + 120, 1_000_000):
            driver.send(shop.orders, "ann", shop.Order("tea", 350), timestamp=now - age * 1000)
        rows = driver.table(shop.per_minute)
        assert len(rows) == 5
        driver.advance(minutes=10)
        kept = driver.table(shop.per_minute)
        assert set(kept) == set(sorted(rows, key=lambda each: each.start)[2:])
