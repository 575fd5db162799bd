"""What the handlers of a task have done: the unit in hand, and what waits for the next commit.

Flow: a handler reads and writes through rows() and send(); at the end of its unit settle(), then
keep() or undo(); take_outputs() begins a commit, for which the rows wait in the tables' overlays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._encode import Record as RawRecord
from .._tables import TableView
from .._tasks import Task
from ._declared import DeclaredTable, GlobalTable, Table
from ._rows import ReadRows, Rows, Source

PER_ROW = 25  # bytes of a frame for a row beside key and value
Globals = Callable[[GlobalTable[Any, Any]], Sequence[Source]]


class Work:
    """The tables and outputs of one task epoch."""

    def __init__(self, task: Task, views: Mapping[str, TableView], globals_: Globals) -> None:
        self.task = task
        self.size = 0
        """About how many bytes wait for the next commit."""
        self._views = views
        self._globals = globals_
        self._rows: dict[Table[Any, Any], Rows[Any, Any]] = {}
        self._read: dict[DeclaredTable, ReadRows[Any, Any]] = {}
        self._unit: list[tuple[str, RawRecord]] = []
        self._outputs: dict[str, list[RawRecord]] = {}

    def rows(self, table: DeclaredTable) -> Rows[Any, Any] | ReadRows[Any, Any]:
        """Find a table of the task, or a global one."""
        if isinstance(table, Table):
            found = self._rows.get(table)
            if found is None:
                found = self._rows[table] = Rows(table, self._views[table.name])
            return found
        read = self._read.get(table)
        if read is None:
            read = self._read[table] = self._reader(table)
        return read

    def send(self, topic: str, record: RawRecord) -> None:
        """Write a record with the unit."""
        self._unit.append((topic, record))

    def settle(self) -> int:
        """Encode what user code may have changed. Gives about how many bytes the unit writes.

        Raises SerdeError; the unit is to be undone then.
        """
        size = 0
        for rows in self._rows.values():
            rows.settle()
            changes = rows.changes
            size += PER_ROW * len(changes) + sum(map(len, changes))
            size += sum(map(len, filter(None, changes.values())))
        for _, record in self._unit:
            size += PER_ROW + len(record.key or b"") + len(record.value or b"")
            size += sum(8 + 4 * len(name) + len(data or b"") for name, data in record.headers)
        return size

    def keep(self, size: int) -> None:
        """The unit is whole: its writes are part of the next commit."""
        for rows in self._rows.values():
            rows.keep()
        for topic, record in self._unit:
            self._outputs.setdefault(topic, []).append(record)
        self._unit.clear()
        self.size += size

    def undo(self) -> None:
        """The unit has failed: nothing of it is left."""
        for rows in self._rows.values():
            rows.undo()
        self._unit.clear()

    def take_outputs(self) -> dict[str, list[RawRecord]]:
        """A commit begins."""
        outputs, self._outputs, self.size = self._outputs, {}, 0
        return outputs

    def _reader(self, table: DeclaredTable) -> ReadRows[Any, Any]:
        if isinstance(table, GlobalTable):
            found: GlobalTable[Any, Any] = table
            return ReadRows(found, lambda: self._globals(found))
        views = [self._views[table.name]]
        return ReadRows(table, lambda: views)
