"""What worlds of the simulation are made of: an event loop with made-up time, stores that fail."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from pillion import StoreError
from pillion.client import Task
from pillion.stores import MemoryStore

TURNS = 10_000  # of the event loop, in which more time than that must pass
TURN = 1e-7  # seconds that each takes


class Wrong(AssertionError):
    """The worker has broken a promise."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Goes to the next timer when there is nothing to do. Waiting for nothing is an error."""

    def __init__(self) -> None:
        self.at = 0.0
        self.turns = 0
        inner, loop = selectors.DefaultSelector(), self

        class Jump(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
            def select(self, timeout: float | None = None) -> Any:
                if timeout is None:
                    raise Wrong("everybody waits for somebody else")
                loop.turns = 0 if timeout > TURN else loop.turns + 1
                if loop.turns > TURNS:
                    loop.turns = 0
                    raise Wrong("somebody turns and turns, and no time passes")
                loop.at += max(0.0, timeout) + TURN
                return super().select(0) if timeout else []

        inner.close()
        super().__init__(Jump())

    def time(self) -> float:
        return self.at


class FlakyStore(MemoryStore):
    """Fails when it is told to."""

    def __init__(self, fails: Callable[[], bool]) -> None:
        super().__init__()
        self.seen: str | None = None
        self._fails = fails

    def get(self, key: bytes) -> bytes | None:
        self._perhaps()
        return super().get(key)

    def apply(self, batch: Any) -> None:
        self._perhaps()
        super().apply(batch)

    def apply_commit(self, writes: Any, checkpoint: str) -> None:
        self._perhaps()
        super().apply_commit(writes, checkpoint)

    def _perhaps(self) -> None:
        if self._fails():
            raise StoreError("the disk is gone")


class KeptStores:
    """Memory by topic and partition; a store that is open may be asked for again."""

    def __init__(self, fails: Callable[[], bool]) -> None:
        self.all: dict[tuple[str, int], FlakyStore] = {}
        self._fails = fails

    def open(self, task: Task, table: str) -> FlakyStore:
        """See Stores."""
        if self._fails():
            raise StoreError("somebody else has it")
        key = (task.tables[table].topic, task.partition)
        return self.all.setdefault(key, FlakyStore(self._fails))
