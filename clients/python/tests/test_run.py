"""Whole programs: one sentence, and the documented exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import pytest

from aio import run
from pillion import _messages as m
from pillion._run import ECHO
from pillion.testing import FakeSidecar
from test_connection import free_port

PROGRAM = """
import asyncio, pillion.client as pillion
async def main():
    async with pillion.connect(sets=[pillion.Set("w", ["w"], ["t"])], outputs=["out"]) as conn:
        with pillion.Tables(conn) as tables:
            async for event in tables:
                print(type(event).__name__, flush=True)
                {branch}
    print("left", flush=True)
pillion.run(main)
"""


async def start(url: str, branch: str = "pass", **env: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM.replace("{branch}", branch),
        env={"PILLION_URL": url, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    _, err = await process.communicate()
    return process.returncode, err.decode()


@run
async def test_no_sidecar_within_five_seconds() -> None:
    url = f"ws://127.0.0.1:{free_port()}"
    began = time.monotonic()
    await (
        await asyncio.create_subprocess_exec(sys.executable, "-c", "import pillion.client")
    ).wait()
    loading = time.monotonic() - began  # of a machine that may be busy
    began = time.monotonic()
    assert await ended(await start(url)) == (
        3,
        f"pillion: no sidecar answers at {url}; start it with 'pillion run', or set PILLION_URL "
        "to where it listens (sidecar_unreachable)\n",
    )
    assert time.monotonic() - began - loading < 5


@run
async def test_a_wrong_token() -> None:
    async with FakeSidecar(token="right") as sidecar:
        assert await ended(await start(sidecar.url)) == (
            2,
            f"pillion: the sidecar at {sidecar.url} refuses the token; set PILLION_TOKEN_FILE to "
            "the file that the sidecar reads its token from (unauthorized)\n",
        )


@run
async def test_superseded() -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url)
        await (await sidecar.accept()).close(4409)
        assert await ended(process) == (
            2,
            f"pillion: the sidecar at {sidecar.url} says: a newer worker has connected to this "
            "sidecar; stop one of the two, or give each worker its own sidecar (superseded)\n",
        )


@pytest.mark.parametrize(
    ("commit", "says"),
    [
        (
            "changelog={'t': [(None, b'')]}",
            "a record for table 't' of task w/0 has a null key, which its changelog "
            "test-t-changelog cannot keep; give each row a key (null_key)",
        ),
        (
            "outputs={'other': []}",
            "topic 'other' is not an output of this worker; add it to outputs in connect() "
            "(undeclared_output)",
        ),
    ],
)
def test_first_mistakes(commit: str, says: str) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            branch = f"if isinstance(event, pillion.Records): await conn.commit(event, {commit})"
            process = await start(sidecar.url, branch)
            worker = await sidecar.accept()
            await worker.records(await worker.start("w"), "w", [(b"k", b"v")])
            assert await ended(process) == (2, f"pillion: {says}\n")

    scenario()


@run
async def test_kafka_away_is_said_and_waited_for() -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url)
        worker = await sidecar.accept()
        away = "no broker answers at localhost:1; start Kafka or set bootstrap_servers"
        await worker.send(m.Waiting("kafka_unreachable", away))
        assert process.stderr is not None
        line = await process.stderr.readline()
        assert line.decode() == f"pillion: {away} (kafka_unreachable)\n"
        await worker.close(4411)
        assert await ended(process) == (0, "")


@run
async def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, "1 / 0")
        await (await sidecar.accept()).assign("w")
        code, err = await ended(process)
        assert (code, "ZeroDivisionError" in err, "pillion:" in err) == (1, True, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_batch_be_finished(number: signal.Signals) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            branch = "if isinstance(event, pillion.Records): await tables.commit(event.batch)"
            process = await start(sidecar.url, branch)
            worker = await sidecar.accept()
            task = await worker.start("w")
            await worker.records(task, "w", [(b"k", b"v")])
            commit = await worker.commit()
            process.send_signal(number)
            await asyncio.sleep(0.02)  # two at the same time would melt into one
            process.send_signal(number)  # as timeout(1) does
            await worker.records(task, "w", [(b"k", b"v")])  # not taken any more
            await worker.committed(commit)
            out, err = await process.communicate()
            assert (process.returncode, err) == (0, b"")
            assert out.split() == [b"Assigned", b"Restored", b"Records", b"left"]
            assert await worker.closed() == 1000

    scenario()


@run
async def test_a_second_signal_ends_at_once() -> None:
    async with FakeSidecar() as sidecar:
        branch = "if isinstance(event, pillion.Records): await tables.commit(event.batch)"
        process = await start(sidecar.url, branch)
        worker = await sidecar.accept()
        await worker.records(await worker.start("w"), "w", [(b"k", b"v")])
        await worker.commit()  # never answered
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # another one: two of a kind are one
        assert (await ended(process))[0] in (128 + signal.SIGINT, 128 + signal.SIGTERM)


@run
async def test_a_second_signal_ends_a_main_that_blocks() -> None:
    async with FakeSidecar() as sidecar:
        process = await start(sidecar.url, "while True: pass")
        await (await sidecar.accept()).assign("w")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"Assigned\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.wait(), 2 * ECHO)
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 128 + signal.SIGTERM
