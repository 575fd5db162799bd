"""A sidecar in Python: a real websocket server whose every message the test decides.

Flow: FakeSidecar listens; accept() gives the next worker that has connected and said hello; its
methods send what a sidecar sends and wait for what the worker answers. Nothing happens by itself
but credit, which is given back as frames arrive (withhold_credit stops that).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.exceptions import NegotiationError
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from .. import _codes
from .. import _messages as m
from ._worker import WITHIN, FakeWorker

LIMITS = m.Limits(128 << 20, 1 << 20, 16 << 20, 2)
DEADLINES = m.Deadlines(10_000, 10_000, 300_000)


class FakeSidecar:
    """Use it in ``async with``; url is where the worker connects."""

    def __init__(
        self,
        *,
        path: str | None = None,
        port: int = 0,
        token: str | None = None,
        limits: m.Limits = LIMITS,
        credit: m.Window | None = None,
        guarantee: m.Guarantee = "at_least_once",
    ) -> None:
        self.token = token
        self.limits = limits
        self.credit = credit or m.Window(32 << 20, 16 << 20)
        self.guarantee: m.Guarantee = guarantee
        self.refuse_with: int | None = None
        """An HTTP status for every handshake from now on."""
        self.refused = asyncio.Event()
        """Set when a handshake was refused."""
        self._path = path
        self._port = port
        self._server: Server | None = None
        self._workers: asyncio.Queue[FakeWorker] = asyncio.Queue()
        self._sessions = 0

    async def __aenter__(self) -> Self:
        how: dict[str, Any] = {
            "select_subprotocol": self._choose,
            "compression": None,
            "ping_interval": None,
            "process_request": self._check,
            "max_size": None,
            "close_timeout": 1,
        }
        if self._path is not None:
            self._server = await unix_serve(self._serve, self._path, **how)
        else:
            self._server = await serve(self._serve, "127.0.0.1", self._port, **how)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where the worker connects."""
        if self._path is not None:
            return f"unix:{self._path}"
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def accept(self, *, welcome: bool = True) -> FakeWorker:
        """Wait for the next worker's hello, and welcome it."""
        async with asyncio.timeout(WITHIN):
            worker = await self._workers.get()
        worker.hello = await worker.expect(m.Hello)
        if welcome:
            self._sessions += 1
            await worker.send(
                m.Welcome(
                    re=worker.hello.id,
                    version=1,
                    session=f"c{self._sessions}",
                    sidecar=m.Software("fake", "0"),
                    group=worker.hello.group or "test",
                    guarantee=self.guarantee,
                    limits=self.limits,
                    credit=self.credit,
                    features=["locate"],
                    deadlines=DEADLINES,
                )
            )
        return worker

    def _choose(
        self, _connection: ServerConnection, offered: Sequence[Subprotocol]
    ) -> Subprotocol | None:
        if _codes.SUBPROTOCOL not in offered:
            raise NegotiationError("no worker's handshake")
        return Subprotocol(_codes.SUBPROTOCOL)

    async def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        status = self.refuse_with
        if (
            self.token is not None
            and request.headers.get("Authorization") != f"Bearer {self.token}"
        ):
            status = 401
        if status is None:
            return None
        self.refused.set()
        return connection.respond(status, "refused\n")

    async def _serve(self, websocket: ServerConnection) -> None:
        worker = FakeWorker(self.credit, websocket)
        self._workers.put_nowait(worker)
        await worker.read()
