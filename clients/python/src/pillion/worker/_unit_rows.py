"""A table as one call of an async handler has it.

INVARIANT: what a handler has left running reads and writes nothing in the unit of another call:
gather() raises the first error, and what was beside it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, MutableMapping
from typing import Any, TypeVar

from ._rows import Rows

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class UnitRows(MutableMapping[K, V]):
    """Rows for as long as the call goes on; look() raises when it has ended."""

    def __init__(self, rows: Rows[K, V], look: Callable[[], None]) -> None:
        self._rows = rows
        self._look = look

    def __getitem__(self, key: K) -> V:
        self._look()
        return self._rows[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._look()
        self._rows[key] = value

    def __delitem__(self, key: K) -> None:
        self._look()
        del self._rows[key]

    def __contains__(self, key: object) -> bool:
        self._look()
        return key in self._rows

    def __iter__(self) -> Iterator[K]:
        return self._walk(iter(self._rows))

    def __len__(self) -> int:
        self._look()
        return len(self._rows)

    def __repr__(self) -> str:
        return repr(self._rows)

    def get(self, key: K, default: Any = None) -> Any:
        """See Rows."""
        self._look()
        return self._rows.get(key, default)

    def setdefault(self, key: K, default: Any = None) -> Any:
        """See Rows."""
        self._look()
        return self._rows.setdefault(key, default)

    def pop(self, key: K, *default: Any) -> Any:
        """See Rows."""
        self._look()
        return self._rows.pop(key, *default)

    def clear(self) -> None:
        """See Rows."""
        self._look()
        self._rows.clear()

    def items(self) -> ItemsView[K, V]:
        """All rows, read in one pass."""
        return _Items(self)

    def pairs(self) -> Iterator[tuple[K, V]]:
        """Walk over all rows."""
        return self._walk(self._rows.pairs())

    def _walk(self, found: Iterator[T]) -> Iterator[T]:
        self._look()
        for each in found:
            yield each
            self._look()


class _Items(ItemsView[K, V]):
    def __init__(self, rows: UnitRows[K, V]) -> None:
        super().__init__(rows)
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._rows.pairs()
