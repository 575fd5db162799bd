"""The programs of README.md, and of docs/python-client.md, run."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from aio import run
from pillion.serdes import INT
from pillion.testing import FakeSidecar, Played, play

PACKAGE = Path(__file__).resolve().parents[1]
README = (PACKAGE / "README.md").read_text(encoding="utf-8")
CLIENT = (PACKAGE.parents[1] / "docs" / "python-client.md").read_text(encoding="utf-8")


@run
async def test_the_program_of_the_readme(tmp_path: Path) -> None:
    app, _ = blocks(README)
    played = await ran(app, tmp_path, "lines", [(None, b"a b"), (None, None), (None, b"a")])
    assert played.tables["counts"] == {b"a": INT.encode(2), b"b": INT.encode(1)}
    assert dict(played.outputs["word-counts"]) == played.tables["counts"]


def test_the_test_of_the_readme(tmp_path: Path) -> None:
    for name, text in zip(("app.py", "test_app.py"), blocks(README), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    pytest = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    said = subprocess.run(pytest, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in said.stdout, said.stdout


@run
async def test_the_program_of_the_client(tmp_path: Path) -> None:
    [program] = blocks(CLIENT)
    assert len(program.splitlines()) <= 30
    played = await ran(program, tmp_path, "words", [(None, b"a"), (None, None), (None, b"a")])
    assert played.tables["counts"] == {b"a": b"2"}


def test_links() -> None:
    for text, at in ((README, PACKAGE), (CLIENT, PACKAGE.parents[1] / "docs")):
        targets = re.findall(r"\]\(([^)#]+)\)", text)
        assert targets
        assert [each for each in targets if not (at / each).exists()] == []


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


async def ran(
    program: str, directory: Path, topic: str, records: list[tuple[bytes | None, bytes | None]]
) -> Played:
    """Run a program until its sidecar has drained, with these records."""
    async with FakeSidecar() as sidecar:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env={"PILLION_URL": sidecar.url}, cwd=directory
        )
        played = await play(sidecar, {topic: records})
        assert await process.wait() == 0
    return played
