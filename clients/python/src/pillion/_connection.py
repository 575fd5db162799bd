"""The connection: the protocol core over a websocket, made again when it breaks.

One task (the keeper) dials, reads and dials again; one writes. User code is the only reader of the
event queue. Everything happens in one event loop, and a loop that user code blocks costs nothing
but time: the sidecar keeps the membership of the group alive.

INVARIANT: a commit belongs to the connection it was made on; it is never sent on a later one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType

from websockets.exceptions import ConnectionClosed

from . import _codes
from . import _json as json
from . import _messages as m
from ._batch import Batch
from ._closing import verdict
from ._codes import CloseCode
from ._commits import Changelog, Committed, Outcome, Outputs
from ._dial import dial, read_token, unreachable
from ._locate import Answer, Located
from ._notice import logger, notice
from ._options import Options, Socket, running
from ._protocol import VERSION, Protocol
from ._queue import EventQueue
from ._tasks import Task
from .errors import (
    ConnectionLost,
    Drained,
    PillionError,
    ProtocolError,
    SidecarUnreachable,
    UsageError,
    sentence,
)
from .events import Event, Records

NOTICE_AFTER = 3.0
FLUSH_WITHIN = 2.0
# What is no trouble is not said on stderr.
_QUIET = {_codes.Code.OK, _codes.Code.JOINING, _codes.Code.GLOBALS}
_CLOSE_WITH = {
    _codes.Code.CREDIT_OVERRUN.value: CloseCode.CREDIT_OVERRUN,
    _codes.Code.VERSION.value: CloseCode.VERSION,
}


class Connection:
    """A worker's connection to its sidecar. Made by connect(); used in ``async with``.

    ``async for event in conn`` gives one ordered stream. It ends when the sidecar has drained or
    after stop(); it raises a ConnectionFatal when the sidecar does not want this worker again. A
    broken connection is made again by itself: all tasks are Lost, then assigned anew.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._queue = EventQueue()
        self._protocol: Protocol | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._arrived = asyncio.Event()  # something for user code
        self._outgoing = asyncio.Event()  # something for the writer
        self._flushed = asyncio.Event()  # nothing for the writer
        self._websocket: Socket | None = None
        self._stopping = False
        self._closing = False
        self._end: PillionError | None = None
        self._dialled_since = 0.0
        self._connected_once = False
        self._noticed = False
        self._waiting = m.Waiting(_codes.Code.OK.value)

    async def __aenter__(self) -> Connection:
        if self._keeper is not None:
            raise UsageError("this connection was used already; call connect() again")
        if program := running.get():
            program.connections.add(self)
        self._first = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(), name="pillion connection")
        try:
            await asyncio.shield(self._first)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self.next()

    async def next(self, busy: Callable[[Event], bool] | None = None) -> Event:
        """Wait for the next event. What busy matches stays, and all behind it of the same task.

        Raises StopAsyncIteration at the end. After what busy says has changed, call wake().
        """
        # One turn of the loop first, so that credit leaves and `lost` arrives in a tight loop.
        await asyncio.sleep(0)
        while not self._stopping:
            protocol = self._protocol
            event = protocol.take(busy) if protocol else None
            if event is not None:
                self._outgoing.set()
                return event
            if self._end is not None:
                if isinstance(self._end, Drained):
                    break
                raise self._end
            if protocol and protocol.idle():
                self._outgoing.set()
            self._arrived.clear()
            await self._arrived.wait()
        raise StopAsyncIteration

    # -- what user code says --------------------------------------------------------------------

    @property
    def welcome(self) -> m.Welcome:
        """What the sidecar said at the latest connect: group, guarantee, limits, deadlines."""
        if self._protocol is None or self._protocol.welcome is None:
            raise UsageError("there is no connection yet; use it inside async with")
        return self._protocol.welcome

    @property
    def url(self) -> str:
        """Where the sidecar is."""
        return self._options.where.url

    def lives(self, task: Task) -> bool:
        """Say whether the task's epoch goes on; after lost it does not, whatever is queued."""
        return self._protocol is not None and self._protocol.lives(task)

    def keeps(self, task: Task) -> bool:
        """Say whether what was committed in the task's epoch still belongs into its stores.

        It does while the epoch lives, and when demoted has ended it.
        """
        return self._protocol is not None and self._protocol.keeps(task)

    def whole(self, task: Task) -> bool:
        """Say whether a Restored that was taken still counts: a reset may have come behind it."""
        return self._protocol is not None and self._protocol.whole(task)

    def opened(self, task: Task, checkpoints: Mapping[str, str | None]) -> None:
        """Answer Assigned with the checkpoint of every table, or Reset with that of the one."""
        self._say(lambda protocol: protocol.opened(task, checkpoints))

    def ready(self, task: Task) -> None:
        """Answer Restored or Promoted: records may come."""
        self._say(lambda protocol: protocol.ready(task))

    def release(self, task: Task) -> None:
        """Answer Revoking, after the last commit of the task was made."""
        self._say(lambda protocol: protocol.release(task))

    def progress(self) -> None:
        """Say that this worker is alive, in the middle of long work."""
        self._say(lambda protocol: protocol.progress())

    def fail(self, task: Task, message: str, *, code: str = "", table: str = "") -> None:
        """Say that a store of the task cannot be used; the task is opened anew."""
        why = code or _codes.Code.STORE_OPEN_FAILED.value
        self._say(lambda protocol: protocol.fail(task, why, message, table))

    def commit(
        self,
        of: Batch | Records | Task,
        source_next: Mapping[str, int] | None = None,
        *,
        changelog: Changelog | None = None,
        outputs: Outputs | None = None,
    ) -> asyncio.Future[Committed]:
        """Commit positions, changelog rows and output records as one.

        Await the result; up to two commits of a task may be on their way. Raises CommitRejected at
        once for what the sidecar would refuse. The awaitable raises a CommitError, or
        ConnectionLost when the connection ends before the answer; a Lost event follows then.
        Without source_next the position is the batch's end.
        """
        batch = of.batch if isinstance(of, Records) else of
        if isinstance(batch, Batch):
            task = batch.task
            source_next = source_next or {batch.topic: batch.next_offset}
        else:
            task = batch
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if future.done():  # cancelled
                return
            if isinstance(outcome, Committed):
                future.set_result(outcome)
                return
            future.set_exception(outcome)
            if self._closing:
                future.exception()  # nobody may be left to ask

        if self._protocol is None or self._end is not None:
            done(self._end or unreachable(self._options.where))
        else:
            self._protocol.commit(task, source_next or {}, changelog or {}, outputs or {}, done)
            self._flushed.clear()
            self._outgoing.set()
        return future

    async def locate(
        self,
        table: str = "",
        key: bytes | None = None,
        *,
        set: str = "",
        partition: int | None = None,
    ) -> Located:
        """Find the members of the group that hold a key of a table: its active and its standbys.

        The key's partition is the one that the Java client's partitioner gives it, or partition
        names one. set tells tables of one name apart, or stands alone. Raises LocateError, and
        ConnectionLost while the sidecar is away; a retriable one is worth another attempt.
        """
        future: asyncio.Future[Located] = asyncio.get_running_loop().create_future()

        def done(answer: Answer) -> None:
            if future.done():  # cancelled
                return
            if isinstance(answer, Located):
                future.set_result(answer)
            else:
                future.set_exception(answer)

        if self._protocol is None or self._end is not None:
            raise self._end or unreachable(self._options.where)
        self._protocol.locate(table, key, set, partition, done)
        self._outgoing.set()
        return await future

    def wake(self) -> None:
        """Let next() look again."""
        self._arrived.set()

    def stop(self) -> None:
        """End the iteration at the next event: for shutting down. Events not taken are left."""
        self._stopping = True
        self._arrived.set()

    def _say(self, what: Callable[[Protocol], None]) -> None:
        if self._protocol is not None:
            what(self._protocol)
            self._flushed.clear()
            self._outgoing.set()

    # -- the keeper -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        try:
            end = await self._connect_and_serve()
        except PillionError as error:
            end = error
        except Exception as error:
            end = PillionError(f"the client failed: {error!r}; report it")
            end.__cause__ = error
        self._finish(end)

    async def _connect_and_serve(self) -> PillionError:
        attempt = 0
        loop = asyncio.get_running_loop()
        self._dialled_since = loop.time()
        while True:
            try:
                websocket = await self._dial()
            except SidecarUnreachable as error:
                pause = min(_codes.RECONNECT_FIRST_MS << min(attempt, 10), _codes.RECONNECT_MAX_MS)
                attempt += 1
                await self._wait_unreachable(error, pause / 1000 * random.uniform(0.8, 1.2))
                continue
            end = await self._serve(websocket)
            if self._closing or not isinstance(end, ConnectionLost):
                return end
            logger.info("%s", end)
            served = self._protocol is not None and self._protocol.welcome is not None
            attempt = 0 if served else attempt + 1
            self._dialled_since = loop.time()
            pause = min(_codes.RECONNECT_FIRST_MS << min(attempt, 10), _codes.RECONNECT_MAX_MS)
            await asyncio.sleep(pause / 1000 * random.uniform(0.8, 1.2))

    async def _dial(self) -> Socket:
        options = self._options
        left = self._left()
        websocket: Socket
        if options.dial is not None:
            websocket = await options.dial()
        else:
            websocket = await dial(
                options.where,
                read_token(options.token),
                options.max_frame,
                5.0 if left is None else max(0.1, min(5.0, left)),
            )
        self._connected_once = True
        self._noticed = False
        return websocket

    def _left(self) -> float | None:
        """Seconds until a first connect is given up; None: never."""
        timeout = self._options.connect_timeout
        if timeout is None or self._connected_once:
            return None
        return self._dialled_since + timeout - asyncio.get_running_loop().time()

    async def _wait_unreachable(self, error: SidecarUnreachable, pause: float) -> None:
        left = self._left()
        if left is not None:
            if left <= 0:
                raise error
            pause = min(pause, left)
        elif not self._noticed:
            waited = asyncio.get_running_loop().time() - self._dialled_since
            if waited >= NOTICE_AFTER:
                self._noticed = True
                notice(str(error))
            else:
                pause = min(pause, NOTICE_AFTER - waited)
        await asyncio.sleep(pause)

    async def _serve(self, websocket: Socket) -> PillionError:
        """Serve one connection to its end and say what the end means."""
        protocol = self._protocol = Protocol(self._hello(), self._queue)
        self._websocket = websocket
        self._flushed.clear()
        self._outgoing.set()
        writer = asyncio.create_task(self._write(websocket, protocol), name="pillion writer")
        closed = ConnectionLost("the connection was closed by this side")
        end: PillionError = closed
        try:
            end = await self._read(websocket, protocol)
            if self._closing and isinstance(end, ConnectionLost):
                end = closed  # it is not made again
        finally:
            self._websocket = None
            writer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer
            protocol.closed(end, end.code)
            self._arrived.set()
        return end

    async def _read(self, websocket: Socket, protocol: Protocol) -> PillionError:
        try:
            while True:
                data = await websocket.recv()
                protocol.receive(data)
                if isinstance(data, str):
                    self._after_control(protocol)
                self._arrived.set()
                self._outgoing.set()
        except ProtocolError as error:
            with contextlib.suppress(ConnectionClosed):
                await websocket.send(json.encode(m.Error(error.code, error.message)))
            await websocket.close(_CLOSE_WITH.get(error.code, CloseCode.BAD_MESSAGE), error.code)
            return error
        except ConnectionClosed as closed:
            if closed.rcvd is None and closed.sent is not None and closed.sent.code == 1009:
                text = f"the sidecar sent more than {self._options.max_frame} bytes at once"
                return ProtocolError(text, _codes.Code.TOO_LARGE)
            code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (None, "")
            return verdict(code, reason, protocol.last_error, self.url)

    def _after_control(self, protocol: Protocol) -> None:
        if protocol.welcome is not None and self._first is not None and not self._first.done():
            self._first.set_result(None)
        waiting = protocol.waiting
        if waiting is None or waiting == self._waiting:
            return
        self._waiting = waiting
        if waiting.code in _QUIET:
            logger.info("%s", waiting.message or "the wait is over")
        else:
            notice(sentence(waiting.message or "the sidecar waits", waiting.code))

    async def _write(self, websocket: Socket, protocol: Protocol) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = protocol.next_outgoing()
                if message is not None:
                    await websocket.send(message)
                    continue
                self._flushed.set()
                self._outgoing.clear()
                await self._outgoing.wait()

    def _hello(self) -> m.Hello:
        options = self._options
        return m.Hello(
            id=1,
            versions=[VERSION],
            client=m.Software(options.name, options.version, "python"),
            max_frame=options.max_frame,
            credit=m.Window(options.ahead or options.window, options.window),
            group=options.declaration.group,
            level="standby",
            sets=options.declaration.sets,
            sources=options.declaration.sources,
            tables=options.declaration.tables,
            globals=options.declaration.globals,
            outputs=options.declaration.outputs,
            replicas=options.replicas,
            address=options.advertise,
        )

    def _finish(self, end: PillionError) -> None:
        self._end = end
        self._arrived.set()
        if self._first is not None and not self._first.done():
            self._first.set_exception(end)

    async def _close(self) -> None:
        """Send what was said (a release), close, end the keeper. Idempotent."""
        if program := running.get():
            program.connections.discard(self)
        self._closing = True
        keeper, websocket = self._keeper, self._websocket
        if keeper is None:
            return
        try:
            if websocket is not None and not keeper.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FLUSH_WITHIN):
                        await self._flushed.wait()
                await websocket.close()
            else:
                keeper.cancel()
            await asyncio.wait([keeper])
        finally:
            keeper.cancel()  # when this was cancelled
