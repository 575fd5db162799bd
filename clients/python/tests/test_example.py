"""The example of the README, as the process that a user starts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aio import run
from pillion.testing import FakeSidecar, play

WORKER = Path(__file__).resolve().parents[3] / "examples" / "wordcount" / "worker.py"
LINES = [(None, b"a b a"), (b"k", b"b"), (None, None), (None, b"c a")] * 50


@run
async def test_the_worker_counts_and_ends_with_0_when_drained(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        worker = await start(sidecar.url, tmp_path)
        played = await play(sidecar, {"words": LINES}, batch=30)
        out, err = await worker.communicate()
    assert (worker.returncode, err) == (0, b"")
    assert played.tables["counts"] == {b"a": b"150", b"b": b"100", b"c": b"50"}
    assert dict(played.outputs["word-counts"]) == played.tables["counts"]
    assert out.decode().splitlines() == ["assigned words/0", "lost words/0"]
    assert (tmp_path / "state" / "words" / "counts.0.sqlite").exists()


@run
async def test_a_restart_goes_on_from_its_store(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        for expected in (b"50", b"100"):
            worker = await start(sidecar.url, tmp_path)
            played = await play(sidecar, {"words": [(None, b"x")] * 50})
            await worker.communicate()
            assert played.tables["counts"] == {b"x": expected}


def test_it_is_thirty_lines() -> None:
    assert len(WORKER.read_text(encoding="utf-8").splitlines()) <= 30


async def start(url: str, directory: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        str(WORKER),
        env={"PILLION_URL": url, "PATH": ""},
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
