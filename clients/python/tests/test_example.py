"""The example of the README, as the process that a user starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aio import run
from examples import EXAMPLES, command, in_both
from pillion.serdes import INT
from pillion.testing import FakeSidecar, play

LINES = [(None, b"a b a"), (b"k", b"b"), (None, None), (None, b"c a")] * 50


@in_both
@run
async def test_the_worker_counts_and_ends_with_0_when_drained(
    tmp_path: Path, language: str
) -> None:
    async with FakeSidecar() as sidecar:
        worker = await start(language, sidecar.url, tmp_path)
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
    told = ["task words/0 is assign", "task words/0 is whole,", "task words/0 ends here"]
    assert [line.split(" INFO pillion: ")[1][:22] for line in log] == (
        told if language == "python" else []  # silent by default
    )
    assert (tmp_path / "state" / "words" / "counts.0.sqlite").exists()


@in_both
@run
async def test_a_restart_goes_on_from_its_store(tmp_path: Path, language: str) -> None:
    async with FakeSidecar() as sidecar:
        for expected in (50, 100):
            worker = await start(language, sidecar.url, tmp_path)
            played = await play(sidecar, {"words": [(None, b"x")] * 50})
            await worker.communicate()
            assert counts(played.tables["counts"]) == {b"x": expected}


@pytest.mark.parametrize("name", ["worker.py", "worker.ts"])
def test_it_is_twenty_lines(name: str) -> None:
    text = (EXAMPLES / "wordcount" / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 20


def counts(rows: dict[bytes, bytes]) -> dict[bytes, int]:
    return {word: INT.decode(count) for word, count in rows.items()}


async def start(language: str, url: str, directory: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command(language, "wordcount/worker"),
        env={"PILLION_URL": url, "PATH": "", "PYTHONWARNINGS": "error"},
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
