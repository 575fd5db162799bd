"""One worker of a FakeSidecar: what a test makes the sidecar do to it, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from .. import _json as json
from .. import _messages as m
from .._batch import Batch
from .._encode import encode
from .._frames import RECORDS, RESTORE, Frame, parse
from .._tasks import Task

WITHIN = 10.0  # seconds that a test waits for the worker
_M = TypeVar("_M", bound=m.Message)
Pairs = Iterable[tuple[bytes | None, bytes | None]]


@dataclass(slots=True)
class FakeTask:
    """A task that was assigned, with its streams."""

    assign: m.Assign
    positions: dict[int, int] = field(default_factory=dict[int, int])
    """The next offset of each stream."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.assign.task

    @property
    def epoch(self) -> int:
        """The task's epoch."""
        return self.assign.epoch


@dataclass(slots=True)
class FakeCommit:
    """A commit as it arrived."""

    message: m.Commit
    changelog: dict[str, list[tuple[bytes | None, bytes | None]]]
    outputs: dict[str, list[tuple[bytes | None, bytes | None]]]
    frames: list[Frame]


class FakeWorker:
    """The other end of one connection: what a test makes the sidecar do."""

    def __init__(self, window: m.Window, websocket: ServerConnection) -> None:
        self.hello: m.Hello = m.Hello(1, [1], m.Software("-", "-"), 1, m.Window(1, 1))
        self.withhold_credit = False
        self.granted = m.Credit()
        """The latest limits that the worker gave, put together."""
        self._window = window
        self._websocket = websocket
        self._arrived: list[m.Message | Frame] = []
        self._changed = asyncio.Event()
        self._ended = False
        self._last_id = 0
        self._last_stream = 0
        self._epochs: dict[str, int] = {}
        self._names: dict[int, tuple[str, str]] = {}  # stream: kind and name
        self._credit = {0: 0}

    # -- wire -----------------------------------------------------------------------------------

    async def send(self, message: m.Message) -> None:
        """Send a control message."""
        await self._websocket.send(json.encode(message))

    async def send_raw(self, data: str | bytes) -> None:
        """Send a websocket message as it is."""
        await self._websocket.send(data)

    async def expect(self, kind: type[_M]) -> _M:
        """Wait for the next message of a kind and take it; others stay."""
        async with asyncio.timeout(WITHIN):
            while True:
                for item in self._arrived:
                    if isinstance(item, kind):
                        self._arrived.remove(item)
                        return item
                if self._ended:
                    raise AssertionError(f"the worker went away before {kind.TYPE}")
                self._changed.clear()
                await self._changed.wait()

    @property
    def ended(self) -> bool:
        """Whether the connection is over."""
        return self._ended

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that arrived makes the condition true."""
        async with asyncio.timeout(WITHIN):
            while not condition():
                if self._ended:
                    raise AssertionError("the worker went away")
                self._changed.clear()
                await self._changed.wait()

    async def expect_nothing(self) -> None:
        """See that the worker has read everything and has nothing to say: a round trip."""
        pong = await self._websocket.ping()
        async with asyncio.timeout(WITHIN):
            await pong
        assert not self._arrived, f"the worker says {self._arrived}"

    def pending(self) -> list[m.Message | Frame]:
        """What arrived and was not taken. Credit and progress are not kept."""
        return list(self._arrived)

    async def close(self, code: int = 1001, reason: str = "") -> None:
        """Close the connection with a code."""
        await self._websocket.close(code, reason)

    async def cut(self) -> None:
        """End the connection without a close code, as a crash does."""
        self._websocket.transport.abort()
        await self._websocket.wait_closed()

    async def closed(self) -> int | None:
        """Wait for the worker's close and give its code."""
        async with asyncio.timeout(WITHIN):
            await self._websocket.wait_closed()
        return self._websocket.close_code

    async def read(self) -> None:
        """Take messages until the connection ends."""
        try:
            async for data in self._websocket:
                item = parse(data) if isinstance(data, bytes) else json.decode(data)
                if isinstance(item, Frame):
                    await self._give_back(item)
                if isinstance(item, m.Credit):
                    streams = {**self.granted.streams, **item.streams}
                    self.granted = m.Credit(max(self.granted.connection, item.connection), streams)
                elif item is not None and not isinstance(item, m.Progress):
                    self._arrived.append(item)
                self._changed.set()
        except ConnectionClosed:
            pass
        finally:
            self._ended = True
            self._changed.set()

    async def _give_back(self, frame: Frame) -> None:
        size, id_ = len(frame.data), frame.stream
        self._credit[0] += size
        self._credit[id_] = self._credit.get(id_, 0) + size
        if not self.withhold_credit:
            streams = {id_: self._credit[id_] + self._window.stream}
            await self.send(m.Credit(self._credit[0] + self._window.connection, streams))

    # -- what a sidecar does --------------------------------------------------------------------

    async def assign(
        self,
        set_: str,
        partition: int = 0,
        *,
        role: m.Role = "active",
        positions: Mapping[str, int] | None = None,
    ) -> FakeTask:
        """Assign a partition of a declared set, or of a global table."""
        name = f"{set_}/{partition}"
        epoch = self._epochs[name] = self._epochs.get(name, 0) + 1
        declared = next((s for s in self.hello.sets if s.name == set_), None)
        tables: list[m.TableStream] = []
        sources: list[m.SourceStream] = []
        outputs: list[m.OutputStream] = []
        if declared is None:
            topic = next(g.topic for g in self.hello.globals if g.name == set_)
            tables.append(m.TableStream(set_, topic, "global", self._stream("table", set_)))
            role = "global"
        else:
            for table in declared.tables:
                kind = "source" if table.source_topic else "changelog"
                topic = table.source_topic or table.changelog or f"test-{table.name}-changelog"
                stream = self._stream("table", table.name)
                tables.append(m.TableStream(table.name, topic, kind, stream))
            if role == "active":
                sources, outputs = self._active(declared, positions or {})
        message = m.Assign(
            self._id(), name, set_, partition, role, epoch, sources, tables, outputs
        )  # fmt: skip
        await self.send(message)
        return FakeTask(message, {source.stream: source.position for source in sources})

    async def restore(
        self, task: FakeTask, table: str, pairs: Pairs, *, checkpoint: str | None = None
    ) -> None:
        """Send rows of a table."""
        stream = next(t.stream for t in task.assign.tables if t.name == table)
        await self._send_frame(RESTORE, task, stream, pairs, checkpoint)

    async def records(self, task: FakeTask, topic: str, pairs: Pairs) -> None:
        """Send source records."""
        stream = next(s.stream for s in task.assign.sources if s.topic == topic)
        await self._send_frame(RECORDS, task, stream, pairs, None)

    async def restored(self, task: FakeTask, *, wait: bool = True) -> None:
        """Say that the tables are whole, and wait for ready."""
        await self.send(m.Restored(self._id(), task.name, task.epoch))
        if wait:
            await self.expect(m.Ready)

    async def start(self, set_: str, partition: int = 0) -> FakeTask:
        """Assign, wait for opened, restored without any rows, wait for ready."""
        task = await self.assign(set_, partition)
        await self.expect(m.Opened)
        await self.restored(task)
        return task

    async def promote(self, task: FakeTask, positions: Mapping[str, int] | None = None) -> FakeTask:
        """Make a standby the active."""
        old = task.assign
        declared = next(s for s in self.hello.sets if s.name == old.set)
        sources, outputs = self._active(declared, positions or {})
        tables = [
            m.TableStream(t.name, t.topic, t.kind, self._stream("table", t.name))
            for t in old.tables
        ]
        epoch = self._epochs[old.task] = self._epochs[old.task] + 1
        now = m.Assign(
            self._id(), old.task, old.set, old.partition, "active", epoch, sources, tables, outputs
        )  # fmt: skip
        await self.send(m.Promoted(now.id, now.task, epoch, sources, tables, outputs))
        return FakeTask(now, {source.stream: source.position for source in sources})

    async def demote(self, task: FakeTask) -> FakeTask:
        """Make an active a standby."""
        old = task.assign
        tables = [
            m.TableStream(t.name, t.topic, t.kind, self._stream("table", t.name))
            for t in old.tables
        ]
        epoch = self._epochs[old.task] = self._epochs[old.task] + 1
        now = m.Assign(0, old.task, old.set, old.partition, "standby", epoch, [], tables, [])
        await self.send(m.Demoted(old.task, epoch, tables))
        return FakeTask(now, {})

    async def revoke(self, task: FakeTask, code: str = "rebalance") -> None:
        """Ask for a task back."""
        await self.send(m.Revoke(self._id(), task.name, task.epoch, 10_000, code))

    async def lose(self, task: FakeTask, code: str = "fenced") -> None:
        """End a task's epoch."""
        await self.send(m.Lost(task.name, task.epoch, code))

    async def reset(self, task: FakeTask, table: str, next_offset: int = 0) -> None:
        """Ask to wipe a store."""
        stream = next(t.stream for t in task.assign.tables if t.name == table)
        task.positions[stream] = next_offset
        message = m.Reset(
            self._id(), task.name, task.epoch, table, stream, next_offset, "below_log_start"
        )
        await self.send(message)

    async def commit(self) -> FakeCommit:
        """Wait for a commit and put its frames together."""
        message = await self.expect(m.Commit)
        frames = [f for f in self._arrived if isinstance(f, Frame) and f.base == message.id]
        made = FakeCommit(message, {}, {}, frames)
        for frame in frames:
            self._arrived.remove(frame)
            kind, name = self._names[frame.stream]
            into = made.changelog if kind == "table" else made.outputs
            into.setdefault(name, []).extend(pairs_of(frame))
        return made

    async def committed(
        self, commit: FakeCommit, checkpoints: Mapping[str, str] | None = None
    ) -> None:
        """Answer a commit; each table written gets a checkpoint unless one is given."""
        message = commit.message
        found = {table: f"v1:{table}:{message.id}" for table in commit.changelog}
        found.update(checkpoints or {})
        await self.send(m.Committed(message.id, message.task, message.epoch, found))

    def _active(
        self, declared: m.SetDeclaration, positions: Mapping[str, int]
    ) -> tuple[list[m.SourceStream], list[m.OutputStream]]:
        sources = [
            m.SourceStream(topic, self._stream("source", topic), positions.get(topic, 0))
            for topic in declared.sources
        ]
        outputs = [
            m.OutputStream(topic, self._stream("output", topic)) for topic in self.hello.outputs
        ]
        return sources, outputs

    async def _send_frame(
        self, kind: int, task: FakeTask, stream: int, pairs: Pairs, checkpoint: str | None
    ) -> None:
        rows: Sequence[tuple[bytes | None, bytes | None]] = list(pairs)
        base = task.positions.get(stream, 0)
        end = task.positions[stream] = base + len(rows)
        mark = "" if kind == RECORDS else checkpoint or f"v1:{stream}:{end}"
        keys, values = [row[0] for row in rows], [row[1] for row in rows]
        data = encode(kind, stream, task.epoch, base, end, keys, values, checkpoint=mark)
        await self._websocket.send(data)

    def _id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _stream(self, kind: str, name: str) -> int:
        self._last_stream += 1
        self._names[self._last_stream] = (kind, name)
        return self._last_stream


def pairs_of(frame: Frame) -> list[tuple[bytes | None, bytes | None]]:
    """Decode the pairs of a frame."""
    task = Task("", "", 0, "active", frame.epoch, {}, {}, {})
    return list(Batch(frame, task, "", "").items())
