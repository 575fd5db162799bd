"""docs/python.md: its programs run, and it is complete. Its commands run in internal/journeys."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aio import run
from pillion import Batch, Context, HandlerFailed, Record, UsageError, Worker, serdes
from pillion import _messages as m
from pillion.testing import FakeSidecar, TestDriver

DOC = (Path(__file__).resolve().parents[3] / "docs" / "python.md").read_text(encoding="utf-8")
TUTORIAL, REFERENCE = DOC.split("\n# Reference\n")
FILE = re.compile(r"`(\w+\.py)`[^\n]*:\n\n```python\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"\n```python\n(.*?)```", re.DOTALL)


def test_the_tutorial(tmp_path: Path) -> None:
    files = FILE.findall(TUTORIAL)
    assert [name for name, _ in files] == ["totals.py", "test_totals.py", "pay.py"]
    assert len(BLOCK.findall(TUTORIAL)) == len(files)
    for name, text in files:
        compile(text, name, "exec")  # pay.py needs a Kafka
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The blocks of the reference, one after the other, as a module."""
    path = tmp_path_factory.mktemp("docs") / "reference.py"
    path.write_text("".join(BLOCK.findall(REFERENCE)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["reference"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["reference"]


def test_the_reference(reference: Any, capsys: pytest.CaptureFixture[str]) -> None:
    reference.test_orders()
    assert capsys.readouterr().out.count("orders/0 is assigned") == 2  # app.watch


def test_what_it_says_about_errors(reference: Any) -> None:
    with TestDriver(reference.app) as driver:
        driver.send(reference.degrees, value=20.0)
        driver.send(reference.degrees, value=-300.0)
        driver.send_raw(reference.degrees, None, b"three")
        driver.send_raw(reference.clicks, b"\xff", b"1")
        assert driver.outputs(reference.poison) == [(b"\xff", b"1")]
        with pytest.raises(HandlerFailed, match="orders/0 offset 0"):
            driver.send_raw(reference.orders, b"c", b"{}")


@run
async def test_a_query(reference: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with FakeSidecar() as sidecar:
        monkeypatch.setenv("PILLION_URL", sidecar.url)
        async with reference.app.running():
            worker = await sidecar.accept()
            task = await worker.assign("orders")
            await worker.expect(m.Opened)
            await worker.restore(task, "accounts", [(b"c1", b'{"cents":5}')])
            await worker.restored(task)

            async def asked(customer: str, partition: int) -> int | str:
                question = asyncio.create_task(reference.cents_of(customer))
                locate = await worker.expect(m.Locate)
                active, name = m.Holder("pillion-1", "10.0.0.8:8080"), f"orders/{partition}"
                await worker.send(m.Located(locate.id, "orders", partition, name, False, active))
                return await question

            assert await asked("c1", 0) == 5
            assert await asked("c2", 0) == 0
            assert await asked("c1", 1) == "10.0.0.8:8080"


def test_what_it_says_about_keys(reference: Any) -> None:
    with pytest.raises(UsageError, match=r"json\(Order, canonical=True\)"):
        serdes.serde_of(reference.Order, key=True, where="topic 'x'")


@pytest.mark.parametrize("of", [Record, Batch, Context, Worker, TestDriver])
def test_nothing_is_left_out(of: type) -> None:
    internal = {"topology", "runtime", "options"}  # the machinery of run() and of tests
    public = {name for name, _ in inspect.getmembers(of) if not name.startswith("_")}
    public |= {name for name in getattr(of, "__slots__", ()) if not name.startswith("_")}
    if of in (Worker, TestDriver):
        public |= set(inspect.signature(of).parameters)
    assert not public - internal - set(dir(tuple)) - words(REFERENCE)


@pytest.mark.parametrize("of", [Record, Batch, Context])
def test_nothing_is_made_up(of: type) -> None:
    found = re.search(rf"`{of.__name__}` has (.*?)\.\s", REFERENCE, re.DOTALL)
    assert found
    told = [re.findall(r"\w+", each.removeprefix("ctx."))[0] for each in code(found[1])]
    assert len(told) >= 4
    for name in set(told) - {"len", "ctx"}:
        assert hasattr(of, name) or name in getattr(of, "__slots__", ()), name


def test_its_links() -> None:
    titles = {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in headings(DOC)}
    for target in re.findall(r"\]\(([^)]+)\)", DOC):
        path, _, anchor = target.partition("#")
        if path:
            assert (Path(__file__).resolve().parents[3] / "docs" / path).exists(), target
        else:
            assert anchor in titles, target


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", re.sub(r"(?s)```.*?```", "", text), re.MULTILINE)


def code(text: str) -> list[str]:
    """What stands in code in the prose."""
    return re.findall(r"`([^`]+)`", re.sub(r"(?s)```.*?```", "", text))


def words(text: str) -> set[str]:
    """All names in code."""
    return set(re.findall(r"\w+", " ".join(code(text) + BLOCK.findall(text))))
