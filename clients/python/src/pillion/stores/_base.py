"""What a store is. pillion.testing.store_conformance checks that one keeps its promises.

A store holds one table of one task: rows of bytes, and the checkpoint that says what it is complete
up to. The checkpoint is opaque: it is kept beside the rows and given back as it came.

INVARIANT: rows and checkpoint change together: after a crash the checkpoint is never newer than
the rows, so that a replay from it makes the table whole.
INVARIANT: a store is never ahead of Kafka: a commit's rows come only with apply_commit, after it
was committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from .._batch import Batch
from .._tasks import Task


class Store(Protocol):
    """One table of one task. Used from one event loop, by one owner at a time."""

    @property
    def ordered(self) -> bool:
        """Whether items() come in the order of their keys' bytes. An attribute will do."""
        ...

    def checkpoint(self) -> str | None:
        """What the store is complete up to; None for an empty store."""
        ...

    def apply(self, batch: Batch) -> None:
        """Take rows from Kafka and batch.checkpoint, if it has one, as one.

        The last record of a key wins, a null value removes it, a record without a key is passed
        over. May be kept in memory until flush, if a crash then loses rows and checkpoint alike.
        """
        ...

    def apply_commit(self, writes: Mapping[bytes, bytes | None], checkpoint: str) -> None:
        """Take the rows of a commit that is whole in Kafka, and its checkpoint, as one."""
        ...

    def flush(self) -> None:
        """Make what was applied survive a crash of this process."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None when there is none."""
        ...

    def items(
        self, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The rows with start <= key < stop, None for no bound; in key order if ordered.

        The store may change meanwhile: a row that is there all the time comes once, one that comes
        or goes once or not at all. An iterator that is given up halfway holds nothing that another
        call, or close, would wait for.
        """
        ...

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def wipe(self) -> None:
        """Remove all rows and the checkpoint."""
        ...

    def close(self) -> None:
        """Flush and let go; the same table may be opened again. Idempotent."""
        ...


class Stores(Protocol):
    """Opens stores."""

    def open(self, task: Task, table: str) -> Store:
        """Open the store of a table of the task, with what it held before.

        Raises StoreError when it cannot be opened now, for example because another process has it.
        """
        ...
