"""Tables as handlers see them: mappings of typed keys and values over a task's rows of bytes.

Flow: a unit of work (one batch of @app.process, one record of @app.each, one call of @app.every)
reads through Rows to what is committed or waits for its commit, and writes into Rows alone. At its
end keep() hands the writes over, or undo() drops them.

INVARIANT: a mutable value that a read handed out, or that was assigned, is encoded once more when
its unit ends, and is written if its bytes have changed: t[k].append(x) works as on a dict.
INVARIANT: after undo() nothing of the unit is left, mutated values included.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeVar

from .._tables import TableView
from ..errors import UsageError
from ..serdes import Serde, SerdeError, mutable
from ..stores import Store
from ._declared import GlobalTable, SourceTable, Table
from ._policy import describe

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class _Missing:
    pass


_MISSING: Final = _Missing()


@dataclass(slots=True)
class _Held(Generic[V]):
    """A mutable value in user code's hands, and the bytes that it had when it got there."""

    value: V
    data: bytes
    row: bool
    """There is a row with these bytes; else it is a default that nobody has changed yet."""


class Rows(MutableMapping[K, V]):
    """A table of the task's partition. Reads see what was written; None is no value: use del.

    With a default, t[k] of a missing key gives a new default value, which becomes a row once it is
    assigned or changed; get() and ``in`` do not. Values are good until the handler returns.
    Iteration is in the order of the keys' bytes where the store has an order; len() and clear()
    read every row.

    Raises KeyError like a dict, SerdeError for a key or value that does not encode or decode, and
    StoreError, after which the task is opened anew.
    """

    def __init__(self, table: Table[K, V], view: TableView) -> None:
        self._table = table
        self._view = view
        self._mutable = mutable(table.value)
        # Looked up once: they are called for each read and write.
        self._key_to_raw = table.key.encode
        self._value_to_data = table.value.encode
        self._data_to_value = table.value.decode
        self._committed = view.find
        self._written: dict[bytes, bytes | None] = {}
        self._held: dict[bytes, _Held[V]] = {}

    def __getitem__(self, key: K) -> V:
        try:
            raw = self._key_to_raw(key)
        except Exception as error:
            raise bad_key(self._table.name, key, error) from error
        if not self._mutable:
            # Nothing is held: as few calls as can be for what most tables are, a number a key.
            written = self._written
            data = written[raw] if raw in written else self._committed(raw)
            if data is not None:
                try:
                    return self._data_to_value(data)
                except Exception as error:
                    raise bad_value(self._table.name, raw, error) from error
            return self._default(key)
        if raw in self._held:
            return self._held[raw].value
        value = self._find(raw)
        if not isinstance(value, _Missing):
            return value
        made = self._default(key)
        self._held[raw] = _Held(made, self._encode(raw, made), row=False)
        return made

    def __setitem__(self, key: K, value: V) -> None:
        try:
            raw = self._key_to_raw(key)
        except Exception as error:
            raise bad_key(self._table.name, key, error) from error
        if value is None:
            raise UsageError(
                f"None is no value of table {self._table.name!r}; del removes a row", "null_value"
            )
        try:
            data = self._value_to_data(value)
        except Exception as error:
            raise self._unwritable(raw, error) from error
        self._written[raw] = data
        if self._mutable:
            self._held[raw] = _Held(value, data, row=True)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        raw = encode_key(self._table.name, self._table.key, key)
        self._held.pop(raw, None)
        self._written[raw] = None

    def __contains__(self, key: object) -> bool:
        if key is None:
            return False  # records may have no key; rows have one
        raw = encode_key(self._table.name, self._table.key, key)
        held = self._held.get(raw)
        if held is not None:
            self._settle(raw, held)
        return self._data(raw) is not None

    def __iter__(self) -> Iterator[K]:
        return (self._decode_key(raw) for raw, _ in self._scan())

    def __len__(self) -> int:
        return sum(1 for _ in self._scan())

    def __repr__(self) -> str:
        return f"<table {self._table.name!r} of a task>"

    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or what is given; the table's default does not count."""
        if key is None:
            return default
        value = self._find(encode_key(self._table.name, self._table.key, key))
        return default if isinstance(value, _Missing) else value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """The value of a key, after it was set to this one if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: K, *default: Any) -> Any:
        """Remove a key and give its value."""
        if key not in self:
            if default:
                return default[0]
            raise KeyError(key)
        value = self[key]
        del self[key]
        return value

    def items(self) -> ItemsView[K, V]:
        """All rows, read in one pass."""
        return _Items(self)

    def clear(self) -> None:
        """Remove all rows."""
        for raw, _ in list(self._scan()):
            self._written[raw] = None
        self._held.clear()

    def pairs(self) -> Iterator[tuple[K, V]]:
        """Walk over all rows."""
        for raw, data in self._scan():
            yield self._decode_key(raw), self._hand_out(raw, data)

    # -- the unit of work -----------------------------------------------------------------------

    @property
    def changes(self) -> Mapping[bytes, bytes | None]:
        """What the unit has written; complete after settle()."""
        return self._written

    def settle(self) -> None:
        """Encode the values in user code's hands. Raises SerdeError."""
        for raw, held in self._held.items():
            self._settle(raw, held)

    def keep(self) -> None:
        """Hand the writes over to the next commit. settle() comes first."""
        if self._written:
            self._view.write_all(self._written)
        self.undo()

    def undo(self) -> None:
        """Drop what the unit has written and changed."""
        self._written.clear()
        self._held.clear()

    def _default(self, key: K) -> V:
        if self._table.default is None:
            raise KeyError(key)
        return self._table.default()

    def _settle(self, raw: bytes, held: _Held[V]) -> None:
        data = self._encode(raw, held.value)
        if data == held.data:
            return
        # Another writer may have spelled the same value otherwise: that is no change.
        if not held.row or self._encode(raw, self._decode(raw, held.data)) != data:
            self._written[raw] = data
            held.row = True
        held.data = data

    # -- bytes ----------------------------------------------------------------------------------

    def _find(self, raw: bytes) -> V | _Missing:
        held = self._held.get(raw)
        if held is not None:
            if not held.row:
                self._settle(raw, held)
            return held.value if held.row else _MISSING
        data = self._data(raw)
        return _MISSING if data is None else self._hand_out(raw, data)

    def _data(self, raw: bytes) -> bytes | None:
        return self._written[raw] if raw in self._written else self._view.find(raw)

    def _hand_out(self, raw: bytes, data: bytes) -> V:
        held = self._held.get(raw)
        if held is not None:
            return held.value
        value = self._decode(raw, data)
        if self._mutable:
            self._held[raw] = _Held(value, data, row=True)
        return value

    def _scan(self) -> Iterator[tuple[bytes, bytes]]:
        self.settle()
        for raw, data in self._view.scan(over=self._written):
            now = self._written.get(raw, data)  # it may have changed since the walk began
            if now is not None:
                yield raw, now

    def _encode(self, raw: bytes, value: V) -> bytes:
        try:
            return self._value_to_data(value)
        except Exception as error:
            raise self._unwritable(raw, error) from error

    def _unwritable(self, raw: bytes, error: Exception) -> SerdeError:
        return SerdeError(
            f"the value of {raw!r} in table {self._table.name!r} cannot be written: "
            f"{describe(error)}"
        )

    def _decode(self, raw: bytes, data: bytes) -> V:
        return decode_value(self._table.name, self._table.value, raw, data)

    def _decode_key(self, raw: bytes) -> K:
        return decode_key(self._table.name, self._table.key, raw)


class _Items(ItemsView[K, V]):
    def __init__(self, rows: Rows[K, V] | ReadRows[K, V]) -> None:
        super().__init__(rows)
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._rows.pairs()


class Source(Protocol):
    """Where read-only rows come from: one partition."""

    def find(self, key: bytes) -> bytes | None:
        """The value of a key."""
        ...

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows."""
        ...


@dataclass(frozen=True, slots=True)
class StoreRows:
    """The rows of a store alone, without what waits for its commit."""

    store: Store

    def find(self, key: bytes) -> bytes | None:
        """See Source."""
        return self.store.get(key)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """See Source."""
        return iter(self.store.items())


class ReadRows(Mapping[K, V]):
    """A read-only table, of one partition or of several. Each read decodes anew.

    Raises KeyError like a dict, SerdeError and StoreError as Rows does.
    """

    def __init__(
        self,
        table: Table[K, V] | SourceTable[K, V] | GlobalTable[K, V],
        sources: Callable[[], Sequence[Source]],
    ) -> None:
        self._table = table
        self._sources = sources

    def __getitem__(self, key: K) -> V:
        raw = encode_key(self._table.name, self._table.key, key)
        for source in self._sources():
            data = source.find(raw)
            if data is not None:
                return decode_value(self._table.name, self._table.value, raw, data)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if key is None:
            return False  # records may have no key; rows have one
        raw = encode_key(self._table.name, self._table.key, key)
        return any(source.find(raw) is not None for source in self._sources())

    def __iter__(self) -> Iterator[K]:
        return (decode_key(self._table.name, self._table.key, raw) for raw, _ in self._scan())

    def __len__(self) -> int:
        return sum(1 for _ in self._scan())

    def __setitem__(self, key: K, value: V) -> None:
        raise UsageError(f"table {self._table.name!r} is read-only here", "read_only")

    def __delitem__(self, key: K) -> None:
        raise UsageError(f"table {self._table.name!r} is read-only here", "read_only")

    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or what is given."""
        try:
            return default if key is None else self[key]
        except KeyError:
            return default

    def __repr__(self) -> str:
        return f"<read-only table {self._table.name!r}>"

    def items(self) -> ItemsView[K, V]:
        """All rows, read in one pass."""
        return _Items(self)

    def pairs(self) -> Iterator[tuple[K, V]]:
        """Walk over all rows."""
        name, keys, values = self._table.name, self._table.key, self._table.value
        for raw, data in self._scan():
            yield decode_key(name, keys, raw), decode_value(name, values, raw, data)

    def _scan(self) -> Iterator[tuple[bytes, bytes]]:
        return chain.from_iterable(source.scan() for source in self._sources())


def encode_key(table: str, serde: Serde[Any], key: object) -> bytes:
    """Encode a table's key. Raises SerdeError that names the table."""
    try:
        return serde.encode(key)
    except Exception as error:
        raise bad_key(table, key, error) from error


def bad_key(table: str, key: object, error: Exception) -> SerdeError:
    """Say that a key does not encode."""
    return SerdeError(f"{key!r} cannot be a key of table {table!r}: {describe(error)}")


def decode_key(table: str, serde: Serde[T], raw: bytes) -> T:
    """Decode a table's key. Raises SerdeError that names the table."""
    try:
        return serde.decode(raw)
    except Exception as error:
        raise SerdeError(
            f"the key {raw!r} of table {table!r} does not decode: {describe(error)}"
        ) from error


def decode_value(table: str, serde: Serde[T], raw: bytes, data: bytes) -> T:
    """Decode a table's value. Raises SerdeError that names table and key."""
    try:
        return serde.decode(data)
    except Exception as error:
        raise bad_value(table, raw, error) from error


def bad_value(table: str, raw: bytes, error: Exception) -> SerdeError:
    """Say that a row does not decode."""
    return SerdeError(f"the row {raw!r} of table {table!r} does not decode: {describe(error)}")
