"""The look-up service of examples/lookup: real processes, each with a sidecar of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from aio import run
from examples import command, in_both
from pillion import _messages as m
from pillion.testing import FakeSidecar, FakeTask, FakeWorker

# What each says when it listens.
SERVES = {"python": "Uvicorn running", "node": "serves"}


@dataclass
class Node:
    """A process of the service, and its sidecar's end."""

    address: str
    process: asyncio.subprocess.Process
    worker: FakeWorker

    async def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, object]:
        async with httpx.AsyncClient(timeout=10, trust_env=False) as http:
            answer = await http.get(f"http://{self.address}{path}", headers=headers)
            return answer.status_code, answer.json()

    async def ask(
        self,
        path: str,
        active: str | None,
        *,
        stale: bool = False,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, object]:
        """Ask for a key, and say where it is when the sidecar is asked."""
        question = asyncio.create_task(self.get(path, headers))
        await self.locate(active, stale=stale)
        return await question

    async def locate(self, active: str | None, *, stale: bool = False) -> None:
        """Answer the next question for a key's place."""
        asked = await self.worker.expect(m.Locate)
        assert asked.table == "counts"
        holder = None if active is None else m.Holder("pillion-1", active)
        await self.worker.send(m.Located(asked.id, "visits", 0, "visits/0", stale, holder))

    async def own(self) -> FakeTask:
        """Give it the task, with the key a/b that came twice, and a visit of it."""
        task = await self.worker.assign("visits")
        await self.worker.expect(m.Opened)
        await self.worker.restore(task, "counts", [(b"a/b", (2).to_bytes(8))])
        await self.worker.restored(task)
        await self.worker.records(task, "visits", [(b"a/b", b""), (None, b"")])
        await self.worker.committed(await self.worker.commit())
        return task


@asynccontextmanager
async def node(directory: Path, language: str) -> AsyncGenerator[Node]:
    """Start the service; it must end well when it is told to, unless it has ended already."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    async with FakeSidecar() as sidecar:
        process = await asyncio.create_subprocess_exec(
            *command(language, "lookup/service"),
            env={"PILLION_URL": sidecar.url, "ADDRESS": address},
            cwd=directory,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            worker = await sidecar.accept()
            assert worker.hello.address == address
            await said(process, SERVES[language])
            yield Node(address, process, worker)
            if process.returncode is None:
                process.terminate()
                await process.communicate()
                assert process.returncode == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def made(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


async def said(process: asyncio.subprocess.Process, words: str) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        if words in line.decode():
            return
    raise AssertionError(f"it has not said {words!r}")


@in_both
@run
async def test_the_owner_answers_and_the_other_asks_it_once(tmp_path: Path, language: str) -> None:
    async with (
        node(made(tmp_path, "a"), language) as owner,
        node(made(tmp_path, "b"), language) as other,
    ):
        task = await owner.own()
        for headers in ({}, {"handed-on": "true"}):
            said = await owner.ask("/counts/a/b", owner.address, headers=headers)
            assert said == (200, {"key": "a/b", "count": 3})
        assert await owner.ask("/counts/new", owner.address) == (
            200,
            {"key": "new", "count": 0},
        )

        question = asyncio.create_task(other.get("/counts/a%2Fb"))
        await other.locate(owner.address)
        await owner.locate(owner.address)
        assert await question == (200, {"key": "a/b", "count": 3})

        # Each believes that the other has it: the question ends at the second.
        neither = asyncio.create_task(other.get("/counts/x"))
        await other.locate(owner.address)
        await owner.worker.lose(task)
        await owner.locate(other.address)
        status, _ = await neither
        assert status == 503
        await other.worker.expect_nothing()


@in_both
@run
async def test_it_does_not_guess(tmp_path: Path, language: str) -> None:
    async with node(tmp_path, language) as owner:
        task = await owner.own()
        for active, stale in ((None, False), (owner.address, True)):
            status, _ = await owner.ask("/counts/a/b", active, stale=stale)
            assert status == 503
        await owner.worker.revoke(task)
        await owner.worker.expect(m.Released)
        # The task has gone. The group says that it is here; then that it is where nobody listens.
        for active in (owner.address, "127.0.0.1:1"):
            status, _ = await owner.ask("/counts/a/b", active)
            assert status == 503


@in_both
@run
async def test_it_is_ready_when_its_tables_are_whole(tmp_path: Path, language: str) -> None:
    async with node(tmp_path, language) as one:
        task = await one.worker.assign("visits")
        await one.worker.expect(m.Opened)
        assert await one.get("/ready") == (503, {"error": "tables are being restored"})
        ready = asyncio.create_task(one.get("/ready"))
        await one.worker.restored(task)
        assert await ready == (200, {})


@in_both
@run
async def test_it_ends_when_its_worker_fails(tmp_path: Path, language: str) -> None:
    async with node(tmp_path, language) as one:
        task = await one.own()
        await one.worker.records(task, "visits", [(b"\xff", b"")])  # no str
        _, log = await one.process.communicate()
        assert one.process.returncode == 1
        assert b"visits/0 offset 2" in log


@in_both
@run
async def test_ctrl_c_ends_it_well(tmp_path: Path, language: str) -> None:
    async with node(tmp_path, language) as one:
        await one.own()
        one.process.send_signal(signal.SIGINT)
        await one.process.communicate()
        assert one.process.returncode == 0
