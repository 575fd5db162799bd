"""app.run(): whole programs, what they print, and their exit codes."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from aio import run
from pillion._codes import CloseCode
from pillion.testing import FakeSidecar
from test_connection import free_port

PROGRAM = """
import asyncio, sys, time
from pillion import Context, MemoryStores, Record, Worker

app = Worker("g", stores=MemoryStores())
words = app.topic("words", key=str, value=str)
counts = app.table("counts", key=str, value=int, default=int)

@app.each(words, tables=[counts])
async def on_word(record: Record[str, str], ctx: Context) -> None:
    ctx[counts][record.value] += 1
    print(record.value, flush=True)
    match record.value:
        case "fail":
            raise ValueError("no such word")
        case "hang":
            await asyncio.Event().wait()
        case "block":
            while True:
                time.sleep(0.01)
        case "stop":
            app.stop()
{more}
app.run()
"""


async def start(url: str, cwd: Path, more: str = "", **env: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM.replace("{more}", more),
        env={"PILLION_URL": url, "PATH": "", **env},
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: Process) -> tuple[int | None, str, str]:
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def said(process: Process, line: bytes) -> None:
    assert process.stdout is not None
    while (got := await process.stdout.readline()) != line + b"\n":
        assert got, "it has ended"


@run
async def test_a_failing_handler(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, tmp_path)
        worker = await sidecar.accept()
        task = await worker.start("words")
        await worker.records(task, "words", [(None, b"a"), (None, b"fail"), (None, b"b")])
        commit = await worker.commit()
        assert commit.message.source_next == {"words": 1}
        await worker.committed(commit)
        code, _, err = await ended(process)
    assert code == 1
    lines = err.splitlines()
    assert lines[-1] == (
        "pillion: on_word has failed at words/0 offset 1: ValueError: no such word; what was "
        "before is committed, and the next start begins there (handler_failed)"
    )
    at = lines.index("Traceback (most recent call last):")
    assert lines[at + 1].endswith("in on_word")  # the user's code, and nothing of this package
    assert lines[-2] == "ValueError: no such word"
    assert any("INFO pillion: task words/0 is whole, and begins at words 0" in x for x in lines)


@run
async def test_a_log_of_the_program_is_left_alone(tmp_path: Path) -> None:
    setup = "level='INFO', stream=sys.stdout, format='mine %(message)s'"
    more = f"import logging; logging.basicConfig({setup})"
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, tmp_path, more)
        worker = await sidecar.accept()
        task = await worker.start("words")
        await worker.records(task, "words", [(None, b"stop")])
        await worker.committed(await worker.commit())
        code, out, err = await ended(process)
    assert (code, err) == (0, "")
    assert "mine task words/0 is assigned (active)" in out.splitlines()


@run
async def test_sigterm_finishes_what_is_in_hand(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, tmp_path)
        worker = await sidecar.accept()
        task = await worker.start("words")
        await worker.records(task, "words", [(None, b"a")])
        await said(process, b"a")
        process.send_signal(signal.SIGTERM)
        await worker.committed(await worker.commit())
        assert (await ended(process))[0] == 0


@run
async def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, tmp_path)
        worker = await sidecar.accept()
        task = await worker.start("words")
        await worker.records(task, "words", [(None, b"hang")])
        await said(process, b"hang")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert (await ended(process))[0] == 128 + signal.SIGINT


@run
async def test_a_second_signal_ends_a_handler_that_blocks(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, tmp_path)
        worker = await sidecar.accept()
        task = await worker.start("words")
        await worker.records(task, "words", [(None, b"block")])
        await said(process, b"block")
        process.send_signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.5)
        process.send_signal(signal.SIGINT)
        code, _, err = await ended(process)
        assert code == 128 + signal.SIGINT
        assert "in on_word" in err  # where it blocked


@run
async def test_ends_that_others_have_caused(tmp_path: Path) -> None:
    async with FakeSidecar() as sidecar:
        for close, code in ((CloseCode.DRAINED, 0), (CloseCode.SUPERSEDED, 2)):
            process = await start(sidecar.url, tmp_path)
            await (await sidecar.accept()).close(close)
            assert (await ended(process))[0] == code
        process = await start(sidecar.url, tmp_path)  # it comes to one that drains already
        await (await sidecar.accept(welcome=False)).close(CloseCode.DRAINED)
        assert await ended(process) == (0, "", "")
    url = f"ws://127.0.0.1:{free_port()}"
    code, _, err = await ended(await start(url, tmp_path))
    assert (code, err) == (
        3,
        f"pillion: no sidecar answers at {url}; start it with 'pillion run', or set PILLION_URL to "
        "where it listens (sidecar_unreachable)\n",
    )


@run
async def test_a_mistake_in_the_declarations(tmp_path: Path) -> None:
    process = await start("ws://127.0.0.1:9", tmp_path, "app.topic('more', key=str, value=str)")
    assert await ended(process) == (
        2,
        "",
        "pillion: topic 'more' has no handler; decorate a function with @app.process or @app.each, "
        "or leave it out (bad_declaration)\n",
    )
    process = await start("ws://127.0.0.1:9", tmp_path, "app.topic('more', key=object, value=str)")
    code, _, err = await ended(process)
    assert code == 1  # a mistake while declaring has the user's line
    assert "UsageError" in err
    assert "the key of topic 'more'" in err
