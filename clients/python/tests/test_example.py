"""The example of the README, as the process that a user starts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aio import run
from pillion.serdes import INT
from pillion.testing import FakeSidecar, play

WORKER = Path(__file__).resolve().parents[3] / "examples" / "wordcount" / "worker.py"
LINES = [(None, b"a b a"), (b"k", b"b"), (None, None), (None, b"c a")] * 50


@run
async def test_the_worker_counts_and_ends_with_0_when_drained(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        worker = await start(sidecar.url, tmp_path)
        played = await play(sidecar, {"words": LINES}, batch=30)
        out, err = await worker.communicate()
    assert (worker.returncode, out) == (0, b"")
    assert counts(played.tables["counts"]) == {b"a": 150, b"b": 100, b"c": 50}
    # Each count is told in its turn; the latest of each word is the table's.
    assert [count for word, count in played.outputs["word-counts"] if word == b"c"] == [
        INT.encode(n) for n in range(1, 51)
    ]
    assert dict(played.outputs["word-counts"]) == played.tables["counts"]
    log = err.decode().splitlines()
    assert [line.split(" INFO pillion: ")[1][:22] for line in log] == [
        "task words/0 is assign",
        "task words/0 is whole,",
        "task words/0 ends here",
    ]
    assert (tmp_path / "state" / "words" / "counts.0.sqlite").exists()


@run
async def test_a_restart_goes_on_from_its_store(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        for expected in (50, 100):
            worker = await start(sidecar.url, tmp_path)
            played = await play(sidecar, {"words": [(None, b"x")] * 50})
            await worker.communicate()
            assert counts(played.tables["counts"]) == {b"x": expected}


def test_it_is_twenty_lines() -> None:
    assert len(WORKER.read_text(encoding="utf-8").splitlines()) <= 20


def counts(rows: dict[bytes, bytes]) -> dict[bytes, int]:
    return {word: INT.decode(count) for word, count in rows.items()}


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
