"""Tables: the stores of a worker's tasks, kept right by the events of its connection.

Flow: Tables stands between the connection and user code. It opens stores at Assigned, applies
Restore, wipes at Reset, closes at Lost and after Revoking, and gives the answers that belong to
each; user code sees the same events and needs to act on Records alone. What it writes is kept in an
overlay; commit() sends the overlay as changelog and moves it into the store once it is committed.

INVARIANT: a store takes a commit only after it was committed, and only in the epoch it was made in.
INVARIANT: a commit ends by its answer, whether or not somebody still waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from heapq import merge
from itertools import chain
from types import NoneType, TracebackType
from typing import NamedTuple

from . import events as ev
from ._batch import Batch
from ._commits import Committed, Outputs
from ._connection import Connection
from ._locate import Located
from ._notice import logger
from ._tasks import Task
from .errors import CommitError, ConnectionLost, StoreError, UsageError
from .stores import MemoryStores, Store, Stores


def _key(row: tuple[bytes, bytes | None]) -> bytes:
    return row[0]


class TableView(MutableMapping[bytes, bytes]):
    """One table of one task: the committed rows, and over them what is not committed yet.

    A source or global table is read-only. Iteration and len() walk the whole table.
    """

    def __init__(self, name: str, store: Store, *, writable: bool) -> None:
        self.name = name
        self.store = store
        self._writable = writable
        self._overlay: dict[bytes, bytes | None] = {}
        self._sent: list[dict[bytes, bytes | None]] = []  # in commits on their way, oldest first

    def __getitem__(self, key: bytes) -> bytes:
        value = self.find(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.write(key, value)

    def __delitem__(self, key: bytes) -> None:
        if key not in self:
            raise KeyError(key)
        self.write(key, None)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.scan())

    def scan(
        self, over: Mapping[bytes, bytes | None] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """All rows, in the order of keys where the store has one; over lies over them all."""
        top: dict[bytes, bytes | None] = {}
        for layer in (*self._sent, self._overlay, over or {}):
            top.update(layer)
        stored = (row for row in self.store.items() if row[0] not in top)
        if self.store.ordered:
            found = merge(stored, sorted(top.items(), key=_key), key=_key)
        else:
            found = chain(stored, top.items())
        return ((key, value) for key, value in found if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Set or, with None, remove a row with the next commit."""
        if not self._writable:
            raise UsageError(f"table {self.name!r} is read-only; only its topic changes it")
        if type(key) is not bytes or (value is not None and type(value) is not bytes):
            raise UsageError(
                f"table {self.name!r} takes bytes as keys and values; encode them first"
            )
        self._overlay[key] = value

    def write_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Set and remove rows with the next commit."""
        kinds = {*map(type, rows.keys()), *map(type, rows.values())}
        if self._writable and kinds <= {bytes, NoneType} and None not in rows:
            self._overlay.update(rows)
            return
        for key, value in rows.items():
            self.write(key, value)

    def find(self, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        overlay = self._overlay
        if key in overlay:
            return overlay[key]
        if self._sent:
            for layer in reversed(self._sent):
                if key in layer:
                    return layer[key]
        return self.store.get(key)

    def begin_commit(self) -> dict[bytes, bytes | None]:
        """Take what was written since the last commit. end_commit follows."""
        layer, self._overlay = self._overlay, {}
        self._sent.append(layer)
        return layer

    def end_commit(self, layer: dict[bytes, bytes | None], checkpoint: str | None) -> None:
        """Move a layer into the store; without a checkpoint it is as if it had not been taken."""
        self._sent = [each for each in self._sent if each is not layer]
        if checkpoint is None:
            self._overlay = {**layer, **self._overlay}
        elif layer:
            self.store.apply_commit(layer, checkpoint)


async def outcome(sent: asyncio.Future[Committed]) -> Committed | None:
    """Wait for a commit's end, as Tables.commit does. The commit goes on when this is cancelled."""
    try:
        return await asyncio.shield(sent)
    except (CommitError, ConnectionLost) as error:
        if not error.retriable:
            raise
        logger.info("%s", error)
        return None


class _Commit(NamedTuple):
    layers: Mapping[str, dict[bytes, bytes | None]]
    ended: asyncio.Future[Committed]


class _TaskTables:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.tables: dict[str, TableView] = {}
        self._next: dict[str, int] = {}  # positions after the batches that user code has taken
        self._taken: dict[tuple[str, int], dict[str, int]] = {}  # those after each, by its end
        self._told: dict[str, int] = {}  # by the commits so far
        self.commits: list[_Commit] = []  # whose answers have not come to the stores, oldest first

    def take(self, batch: Batch) -> None:
        """User code gets a batch."""
        self._next[batch.topic] = batch.next_offset
        self._taken[batch.topic, batch.next_offset] = dict(self._next)

    def positions(self, of: Batch | None) -> dict[str, int]:
        """What a commit names: the ends of what was taken up to the batch, or of everything."""
        if of is None:
            return self._next
        return self._taken.get((of.topic, of.next_offset), self._told)

    def told(self, positions: dict[str, int]) -> None:
        """A commit with these positions is on its way."""
        self._told = dict(positions)
        for end, after in list(self._taken.items()):
            if all(offset <= positions.get(topic, -1) for topic, offset in after.items()):
                del self._taken[end]

    def close(self) -> None:
        for table in self.tables.values():
            try:
                table.store.close()
            except StoreError as error:
                logger.warning("%s", error)


class Tables:
    """Iterate over it instead of the connection: ``async for event in tables``."""

    def __init__(self, conn: Connection, stores: Stores | None = None) -> None:
        self.conn = conn
        self._stores: Stores = stores or MemoryStores()
        self._tasks: dict[str, _TaskTables] = {}
        self._leaving: Task | None = None

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all stores. Idempotent."""
        for tables in self._tasks.values():
            tables.close()
        self._tasks.clear()

    def __getitem__(self, of: Task | Batch) -> Mapping[str, TableView]:
        """The tables of a task, or of a batch's task."""
        task = of.task if isinstance(of, Batch) else of
        found = self._tasks.get(task.name)
        if found is None or found.task is not task:
            raise UsageError(f"task {task.name} of epoch {task.epoch} has no open tables")
        return found.tables

    def lookup(self, table: str, key: bytes) -> bytes | None:
        """Find a key in a global table, whatever its partition."""
        for tables in self._tasks.values():
            if tables.task.role == "global" and table in tables.tables:
                value = tables.tables[table].get(key)
                if value is not None:
                    return value
        return None

    async def locate(self, table: str, key: bytes) -> Located:
        """Find the members of the group that hold a key, as Connection.locate does."""
        return await self.conn.locate(table, key)

    def __aiter__(self) -> AsyncIterator[ev.Event]:
        return self

    async def __anext__(self) -> ev.Event:
        task, self._leaving = self._leaving, None
        if task is not None:
            self.release(task)
        event = await self.next()
        if isinstance(event, ev.Revoking):
            self._leaving = event.task  # until user code has seen it, and made its last commit
        return event

    async def next(self, busy: Callable[[ev.Event], bool] | None = None) -> ev.Event:
        """Wait for the next event, as Connection.next does. Revoking is answered with release()."""
        event = await self.conn.next(busy)
        while isinstance(event, ev.Records) and self._of(event.task) is None:
            event = await self.conn.next(busy)  # its store has failed; Lost is on its way
        try:
            self._handle(event)
        except StoreError as error:
            table = event.table if isinstance(event, ev.Restore | ev.Reset) else ""
            self.fail(event.task, error, table)  # type: ignore[union-attr]
        return event

    async def commit(
        self, of: Batch | ev.Records | Task, *, outputs: Outputs | None = None
    ) -> Committed | None:
        """Commit what the task wrote, the records up to this batch (or all taken), and outputs.

        Returns None when the epoch or the connection ended first: Lost follows, and the records
        come again. Raises the CommitError when another attempt would end alike. A commit that is
        cancelled goes on nevertheless: make the next one, and do not repeat its outputs.
        """
        batch = of.batch if isinstance(of, ev.Records) else None if isinstance(of, Task) else of
        task = of if isinstance(of, Task) else of.task
        mine = self._of(task)
        if mine is None:
            return None
        return await outcome(self.send(task, mine.positions(batch), outputs=outputs))

    def send(
        self, task: Task, positions: Mapping[str, int], *, outputs: Outputs | None = None
    ) -> asyncio.Future[Committed]:
        """Begin a commit of these positions: next offsets by source. outcome() waits for its end.

        Raises CommitRejected at once for what the sidecar would refuse: nothing has changed then.
        """
        mine = self._of(task)
        if mine is None:
            return self.conn.commit(task, positions)  # which says that its epoch is over
        layers = {name: table.begin_commit() for name, table in mine.tables.items()}
        changelog = {name: list(rows.items()) for name, rows in layers.items() if rows}
        try:
            sent = self.conn.commit(task, positions, changelog=changelog, outputs=outputs)
        except BaseException:
            for name, layer in layers.items():
                mine.tables[name].end_commit(layer, None)
            raise
        mine.told(dict(positions))
        made = _Commit(layers, sent)
        mine.commits.append(made)
        sent.add_done_callback(lambda _: self._settle(mine, made))
        return sent

    def _settle(self, mine: _TaskTables, made: _Commit) -> None:
        """A commit has its answer."""
        layers, ended = made
        failed = ended.cancelled() or ended.exception() is not None
        if made not in mine.commits:
            return  # demoted did not wait for it
        mine.commits.remove(made)
        if failed or self._of(mine.task) is not mine or not self.conn.keeps(mine.task):
            return  # the epoch is over, and what it wrote with it; Lost may still be in the queue
        checkpoints = ended.result().checkpoints
        try:
            for name, layer in layers.items():
                # A table that was not written has no new checkpoint, and nothing to move.
                mine.tables[name].end_commit(layer, checkpoints.get(name))
        except StoreError as error:
            self.fail(mine.task, error)

    def fail(self, task: Task, error: StoreError, table: str = "") -> None:
        """Say that a store of the task is of no use now. The sidecar opens the task anew."""
        logger.warning("%s", error)
        self._drop(task.name)
        self.conn.fail(task, error.message, table=table)

    def _handle(self, event: ev.Event) -> None:
        match event:
            case ev.Assigned(task):
                self._drop(task.name)
                self._opened(task)
            case ev.Restore(task, batch):
                if tables := self._of(task):
                    tables.tables[batch.name].store.apply(batch)
            case ev.Records(task, batch):
                if tables := self._of(task):
                    tables.take(batch)
            case ev.Restored(task):
                if tables := self._of(task):
                    for table in tables.tables.values():
                        table.store.flush()
                    self.conn.ready(task)
            case ev.Promoted(task, was) | ev.Demoted(task, was):
                if not self._adopt(task, was):
                    # Said of the former epoch, it was not heard.
                    self.conn.fail(task, "a store of the task has failed")
                elif isinstance(event, ev.Promoted):
                    self.conn.ready(task)
            case ev.Reset(task, table, _, _):
                if tables := self._of(task):
                    tables.tables[table].store.wipe()
                    self.conn.opened(task, {table: None})
            case ev.Lost(task, _, _):
                if self._of(task):
                    self._drop(task.name)
            case _:
                pass

    def _opened(self, task: Task) -> None:
        mine = _TaskTables(task)
        try:
            for name, stream in task.tables.items():
                store = self._stores.open(task, name)
                writable = stream.kind == "changelog" and task.role == "active"
                mine.tables[name] = TableView(name, store, writable=writable)
            checkpoints = {name: table.store.checkpoint() for name, table in mine.tables.items()}
        except StoreError:
            mine.close()
            raise
        self._tasks[task.name] = mine
        self.conn.opened(task, checkpoints)

    def _adopt(self, task: Task, was: Task) -> bool:
        """Go on with the stores of the former epoch; False when they are of no use."""
        old = self._of(was)
        if old is None:
            return False
        # INVARIANT: what was answered before demoted is in the stores: the copy goes on behind it.
        for made in list(old.commits):
            if made.ended.done():
                self._settle(old, made)
        if self._of(was) is not old:
            return False
        now = self._tasks[task.name] = _TaskTables(task)
        for name, table in old.tables.items():
            table.store.flush()
            writable = task.tables[name].kind == "changelog" and task.role == "active"
            now.tables[name] = TableView(name, table.store, writable=writable)
        return True

    def release(self, task: Task) -> None:
        """Answer Revoking: the last commit of the task was made. Its stores are closed."""
        if self._of(task):
            self._drop(task.name)
        self.conn.release(task)

    def _of(self, task: Task) -> _TaskTables | None:
        found = self._tasks.get(task.name)
        return found if found is not None and found.task is task else None

    def _drop(self, name: str) -> None:
        if tables := self._tasks.pop(name, None):
            tables.close()
