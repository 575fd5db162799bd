"""Tables in a dict: nothing survives the process, but a reconnect finds them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .._batch import Batch
from .._tasks import Task


class MemoryStore:
    """A table in a dict."""

    ordered = False

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._checkpoint: str | None = None

    def checkpoint(self) -> str | None:
        """See Store."""
        return self._checkpoint

    def apply(self, batch: Batch) -> None:
        """See Store."""
        batch.apply_to(self.rows)
        self._checkpoint = batch.checkpoint or self._checkpoint

    def apply_commit(self, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
        """See Store."""
        for key, value in writes.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self._checkpoint = checkpoint

    def flush(self) -> None:
        """See Store."""

    def get(self, key: bytes) -> bytes | None:
        """See Store."""
        return self.rows.get(key)

    def items(
        self, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """See Store. Takes a list of the keys, and the values as it comes to them."""
        for key in list(self.rows):
            if (start is None or key >= start) and (stop is None or key < stop):
                value = self.rows.get(key)
                if value is not None:
                    yield key, value

    def __len__(self) -> int:
        return len(self.rows)

    def wipe(self) -> None:
        """See Store."""
        self.rows.clear()
        self._checkpoint = None

    def close(self) -> None:
        """See Store."""


class MemoryStores:
    """Keeps the tables of this process by topic and partition."""

    def __init__(self) -> None:
        self._stores: dict[tuple[str, str, int], MemoryStore] = {}

    def open(self, task: Task, table: str) -> MemoryStore:
        """See Stores."""
        key = (table, task.tables[table].topic, task.partition)
        return self._stores.setdefault(key, MemoryStore())
