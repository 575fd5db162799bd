"""A worker as a process, and a sidecar on a real local socket that writes its bytes as told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Sequence
from pathlib import Path

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from ... import _codes
from .._fake import FakeSidecar
from .fault import Fault
from .sidecar import Manner, Sidecar
from .stage import Knock, knocked

PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_PAUSE = 0.0002  # seconds between two writes, so that pieces arrive as pieces


class SocketLink:
    """Writes below the websocket package, which reads and answers pings and closes.

    INVARIANT: one task writes, so one message is never in the middle of another one.
    """

    def __init__(self) -> None:
        self._manner = Manner()
        self._glued: list[bytes] = []
        self._queue: asyncio.Queue[tuple[bytes, int] | tuple[int, str]] = asyncio.Queue()
        self._websocket: ServerConnection | None = None

    def post(self, data: str | bytes) -> None:
        """Send a message in the present manner."""
        raw = encode(self._manner, data)
        if self._manner.glue:
            self._glued.append(raw)
        else:
            self._queue.put_nowait((raw, self._manner.chunk))

    def ping(self, size: int) -> None:
        """Send a ping with so many bytes."""
        self._queue.put_nowait((_frame(Opcode.PING, b"p" * size), 0))

    def change(self, manner: Manner) -> None:
        """Write in another manner from now on; what was glued goes out."""
        self._manner = manner
        if self._glued:
            self._queue.put_nowait((b"".join(self._glued), 0))
            self._glued.clear()

    def close(self, code: int, reason: str) -> None:
        """Close behind what was posted."""
        self._queue.put_nowait((code, reason))

    def cut(self) -> None:
        """Abort the socket."""
        if self._websocket is not None:
            self._websocket.transport.abort()

    async def write(self, websocket: ServerConnection) -> None:
        """Write what is posted until cancelled."""
        self._websocket = websocket
        while True:
            what, how = await self._queue.get()
            if isinstance(what, int):
                await websocket.close(what, str(how))
                return
            size = int(how) or len(what)
            for at in range(0, len(what), size):
                websocket.transport.write(what[at : at + size])
                if at + size < len(what):
                    await asyncio.sleep(_PAUSE)


class ProcessWorker:
    """A process in a session of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.code: int | None = None
        self._process = process

    def ended(self) -> str:
        """Say how it has ended."""
        return f"the worker's process ended with exit code {self.code}"

    def signal(self, number: signal.Signals) -> None:
        """Reach the process and its children."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def wait(self) -> int:
        """Wait for the end; give the exit code, 128 + signal when it was killed."""
        code = await self._process.wait()
        return 128 - code if code < 0 else code


class ProcessStage(FakeSidecar):
    """A FakeSidecar that asks the player about each handshake, and starts processes."""

    def __init__(
        self, sidecar: Sidecar, command: Sequence[str], directory: Path, *, unix: bool, proxy: bool
    ) -> None:
        super().__init__(path=str(directory / "sock") if unix else None)
        self.work = directory / "work"
        self.knocking: Knock | None = None
        self._sidecar = sidecar
        self._command = command
        self._directory = directory
        self._proxy = proxy
        self._secret = secrets.token_hex(16)
        self._knocks: dict[ServerConnection, Knock] = {}
        self._ends: set[asyncio.Task[None]] = set()
        self._worker: ProcessWorker | None = None
        self.work.mkdir()
        (directory / "token").write_text(f"  {self._secret}\n\n")

    async def start(self, job: str) -> None:
        """Start the command with the case's environment."""
        environment = {
            **os.environ,
            **(dict.fromkeys(PROXIES, "http://127.0.0.1:1") if self._proxy else {}),
            "NO_PROXY": "",
            "no_proxy": "",
            "PILLION_URL": self.url,
            "PILLION_TOKEN_FILE": str(self._directory / "token"),
            "PILLION_CONFORMANCE_JOB": job,
            "PILLION_CONFORMANCE_DIR": str(self.work),
        }
        with (self._directory / "output").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = self._worker = self._sidecar.worker = ProcessWorker(process)
        end = asyncio.create_task(self._reap(worker))
        self._ends.add(end)

    def signal(self, name: str) -> None:
        """Send TERM, INT or KILL."""
        if self._worker is not None:
            self._worker.signal(signal.Signals[f"SIG{name}"])

    def output(self) -> str:
        """The end of what the worker printed."""
        path = self._directory / "output"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    async def close(self) -> None:
        """Kill the process, and stop listening."""
        for knock in self._knocks.values():
            knock.refuse(503, "busy")
        self.signal("KILL")
        if self._ends:
            await asyncio.wait(self._ends)
        await self.__aexit__(None, None, None)

    async def _reap(self, worker: ProcessWorker) -> None:
        code = await worker.wait()

        def over() -> None:
            worker.code = code

        self._sidecar.post(over)

    async def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        knock = self._knocks[connection] = Knock(SocketLink(), self._wrong(request))
        self._sidecar.post(lambda: knocked(self, knock))
        status = await knock.answered
        if status in (0, 101):
            return None
        body = f'{{"code": "{knock.code}", "message": "the case wants it so"}}'
        response = connection.respond(status, body)
        if status // 100 == 3:
            response.headers["Location"] = "/elsewhere"
        return response

    def _choose(
        self, connection: ServerConnection, offered: Sequence[Subprotocol]
    ) -> Subprotocol | None:
        if self._knocks[connection].session is None:
            return None  # as a server does that is no sidecar
        return super()._choose(connection, offered)

    async def _serve(self, websocket: ServerConnection) -> None:
        knock = self._knocks[websocket]
        session, link = knock.session, knock.link
        assert isinstance(link, SocketLink)
        writer = asyncio.create_task(link.write(websocket))
        code = 0
        try:
            while True:
                data = await websocket.recv()
                if session is not None:
                    self._sidecar.post(lambda data=data: session.receive(data))
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else 0
        finally:
            if session is not None:
                self._sidecar.post(lambda: session.finish(code))
            if not writer.done():
                writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def _wrong(self, request: Request) -> Fault | None:
        """Compare a handshake with section 2 of the protocol."""
        headers = request.headers
        host = None if self.url.startswith("unix:") else self.url.removeprefix("ws://")
        wants = {
            "the path /": (request.path, "/"),
            "no Origin": (headers.get("Origin"), None),
            "no extensions": (headers.get("Sec-WebSocket-Extensions"), None),
            "the subprotocol": (headers.get("Sec-WebSocket-Protocol"), _codes.SUBPROTOCOL),
            "the token of the file": (headers.get("Authorization"), f"Bearer {self._secret}"),
            "the host of PILLION_URL": (host and headers.get("Host"), host),
        }
        for want, (came, right) in wants.items():
            if came != right:
                return Fault(want, repr(came), "PROTOCOL.md, section 2 shows the whole request")
        return None


def _frame(opcode: Opcode, data: bytes, *, last: bool = True) -> bytes:
    return Frame(opcode, data, fin=last).serialize(mask=False)


def encode(manner: Manner, data: str | bytes) -> bytes:
    """Make the bytes of one message; a server masks nothing."""
    opcode = Opcode.TEXT if isinstance(data, str) else Opcode.BINARY
    raw = data.encode() if isinstance(data, str) else data
    size = manner.fragment or max(1, len(raw))
    parts = [raw[at : at + size] for at in range(0, len(raw), size)] or [b""]
    made: list[bytes] = []
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        made.append(_frame(opcode if i == 0 else Opcode.CONT, part, last=last))
        if manner.pings and not last:
            made.append(_frame(Opcode.PING, b""))
    return b"".join(made)
