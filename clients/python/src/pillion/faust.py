"""Go on with the tables of a Faust application: its keys, values and windows, byte for byte.

    accounts = app.table("accounts", key=faust.key(str), value=faust.json(Account))
    per_minute = app.table("per_minute", key=faust.windowed(str), value=faust.json(int))
    minutes = faust.TumblingWindow(60)

A table that Faust kept is found under its changelog, the topic `<app id>-<table>-changelog`.
docs/migrating-from-faust.md says how to move an application. Nothing here needs Faust.

INVARIANT: a key has the bytes that Faust gives it: with others it would be another row. What is
installed beside Faust decides over them: without orjson (also with simplejson) every character
outside ASCII is escaped, with orjson none is. orjson=True says that Faust had it. Of floats below
0.0001 orjson has spellings of its own; those are orjson 3.13's.
"""

from __future__ import annotations

import json as _json
import re
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, overload
from uuid import UUID

from . import serdes
from .errors import UsageError
from .serdes import Serde, SerdeError

__all__ = ["HoppingWindow", "TumblingWindow", "Windowed", "json", "key", "raw", "windowed"]

T = TypeVar("T")
K = TypeVar("K")

raw: Final[Serde[bytes]] = serdes.BYTES
"""Faust's codec of key_type=bytes and value_type=bytes."""

# The quotes of a name inside of a string are escaped, so that this is never found in one.
_META = rb'"__faust"\s*:\s*\{\s*"ns"\s*:\s*"[^"\\]*"\s*\}'
_METADATA = re.compile(rb",\s*" + _META + rb"|" + _META + rb"\s*,?")
_SMALL = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)([\d.]+)e-(\d+)')
_WINDOWED = re.compile(rb"\s*\[(.*),\s*\[([^\[\],]+),([^\[\],]+)\]\s*\]\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """A key in one window of time: start and end in seconds. The end is Faust's: 0.1 s early."""

    key: K
    start: float
    end: float


@overload
def json(*, orjson: bool = False) -> Serde[Any]: ...
@overload
def json(of: type[T], *, orjson: bool = False, namespace: str | None = None) -> Serde[T]: ...
@overload
def json(of: Any, *, orjson: bool = False, namespace: str | None = None) -> Serde[Any]: ...
def json(of: Any = Any, *, orjson: bool = False, namespace: str | None = None) -> Serde[Any]:
    """Faust's codec of everything but bytes: values of tables and topics.

    of: a type as serdes.json() takes it: for a Record a dataclass with its fields in its order.
    With `X | None` the value that Faust writes for `table[key] = None` is None, too. orjson: see
    the module. namespace="module.Record": write that Record's metadata `__faust`. When it is read
    it is dropped, with and without a namespace.
    """
    if hasattr(of, "model_fields") or hasattr(of, "__struct_fields__"):
        raise UsageError(f"faust.json takes a dataclass in place of {of.__name__}")
    if namespace is not None and not is_dataclass(of):
        raise UsageError("faust.json takes namespace= with a dataclass, as only Records have one")
    some = tuple(each for each in get_args(of) if each is not NoneType)
    optional = get_origin(of) in (Union, UnionType) and len(some) < len(get_args(of))
    typed: Serde[Any] = serdes.json(Union[some] if optional else of)  # noqa: UP007
    return _Json(typed, orjson=orjson, optional=optional, namespace=namespace)


@overload
def key(*, orjson: bool = False) -> Serde[Any]: ...
@overload
def key(of: type[K], *, orjson: bool = False, namespace: str | None = None) -> Serde[K]: ...
@overload
def key(of: Any, *, orjson: bool = False, namespace: str | None = None) -> Serde[Any]: ...
def key(of: Any = Any, *, orjson: bool = False, namespace: str | None = None) -> Serde[Any]:
    """Give the keys of a table: Faust's JSON (with quotes, for key_type=str too).

    of: as in json(); tuple[str, int] or the like for a tuple. A Record's keys have its metadata,
    and need namespace, unless it has include_metadata=False. A key that Faust has spelled
    otherwise than it is spelled here is an error when it is read: it would be another row.
    """
    return _Keys(json(of, orjson=orjson, namespace=namespace), orjson=orjson)


@overload
def windowed(of: type[K], *, orjson: bool = False) -> Serde[Windowed[K]]: ...
@overload
def windowed(of: Any, *, orjson: bool = False) -> Serde[Windowed[Any]]: ...
def windowed(of: Any, *, orjson: bool = False) -> Serde[Windowed[Any]]:
    """Give the keys of a table with .tumbling() or .hopping(): `["key",[start,end]]`."""
    return _Keys(_Windowed(json(of, orjson=orjson)), orjson=orjson)


class _Json:
    def __init__(
        self, typed: Serde[Any], *, orjson: bool, optional: bool, namespace: str | None
    ) -> None:
        self.name = f"faust.json of {serdes.name(typed)}"
        self.mutable = serdes.mutable(typed)
        self._typed = typed
        self._orjson = orjson
        self._optional = optional
        self._namespace = namespace
        encoder = _json.JSONEncoder(ensure_ascii=not orjson, separators=(",", ":"), default=_plain)
        self._text = encoder.encode

    def encode(self, value: Any, /) -> bytes:
        if value is None and self._optional:
            return b"null"
        self._typed.encode(value)  # refuses what could not be read again
        text = self._text(value)
        if self._namespace is not None:
            comma = "" if text == "{}" else ","
            text = f'{text[:-1]}{comma}"__faust":{{"ns":"{self._namespace}"}}}}'
        if self._orjson and "e-" in text:
            text = _SMALL.sub(_small, text)
        return text.encode()

    def decode(self, data: bytes, /) -> Any:
        if data == b"null" and self._optional:
            return None
        if b'"__faust"' in data:
            data = _METADATA.sub(b"", data)
        return self._typed.decode(data)


class _Keys(Generic[K]):
    def __init__(self, inner: Serde[K], *, orjson: bool) -> None:
        self.name = f"{serdes.name(inner)} keys"
        self.mutable = serdes.mutable(inner)
        self._inner = inner
        self._advice = "without orjson=True" if orjson else "with orjson=True"

    def encode(self, value: K, /) -> bytes:
        return self._inner.encode(value)

    def decode(self, data: bytes, /) -> K:
        value = self._inner.decode(data)
        due = self._inner.encode(value)
        if due != data:
            raise SerdeError(
                f"{_shown(data)} would be written as {_shown(due)}, which is another row; "
                f"declare the key {self._advice}, or a Record's with its namespace"
            )
        return value


class _Windowed(Generic[K]):
    name = "faust.windowed"
    mutable = False

    def __init__(self, keys: Serde[K]) -> None:
        self._keys = keys

    def encode(self, value: Windowed[K], /) -> bytes:
        window = f"[{float(value.start)!r},{float(value.end)!r}]"
        return b"[%s,%s]" % (self._keys.encode(value.key), window.encode())

    def decode(self, data: bytes, /) -> Windowed[K]:
        found = _WINDOWED.fullmatch(data)
        try:
            if found is None:
                raise ValueError
            start, end = float(found[2]), float(found[3])
        except ValueError:
            raise SerdeError(f"{_shown(data)} is no [key,[start,end]]") from None
        return Windowed(self._keys.decode(found[1]), start, end)


def _shown(data: bytes) -> str:
    return data[:64].decode(errors="replace")


def _plain(value: Any) -> Any:
    """Give what Faust writes for a value that the JSON encoder does not know."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    raise SerdeError(f"faust.json does not write {type(value).__name__}")


def _small(found: re.Match[str]) -> str:
    """Spell a float below 0.0001 as orjson does. A string stays as it is."""
    sign, digits, exponent = found.groups()
    if digits is None:
        return found[0]
    if int(exponent) == 5:
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{sign}{digits}e-{int(exponent)}"


class HoppingWindow:
    """Windows of size seconds, a new one every step seconds: Faust's table.hopping(size, step).

    Both are whole seconds from 1 on, or UsageError is raised. Timestamps are milliseconds, as a
    record has them; one that is None raises ValueError.
    """

    def __init__(self, size: int, step: int) -> None:
        if size < 1 or step < 1 or size != int(size) or step != int(step):
            raise UsageError(f"windows take whole seconds, not size {size} and step {step}")
        self.size = int(size)
        self.step = int(step)

    def ranges(self, key: K, timestamp: int | None) -> list[Windowed[K]]:
        """All windows of a moment, oldest first: those that `table[key] += 1` changes in Faust."""
        seconds = _seconds(timestamp)
        starts = range(self._earliest(seconds), int(seconds) + 1, self.step)
        return [self._from(key, start) for start in starts]

    def current(self, key: K, timestamp: int | None) -> Windowed[K]:
        """The newest window of a moment: `table[key].current()` in Faust."""
        return self._current(key, _seconds(timestamp))

    def delta(self, key: K, timestamp: int | None, seconds: float) -> Windowed[K]:
        """The newest window of so many seconds before: `table[key].delta(seconds)` in Faust."""
        return self._current(key, _seconds(timestamp) - seconds)

    def _current(self, key: K, seconds: float) -> Windowed[K]:
        earliest = self._earliest(seconds)
        return self._from(key, earliest + int((seconds - earliest) // self.step) * self.step)

    def _earliest(self, seconds: float) -> int:
        return int(seconds // self.step) * self.step - self.size + self.step

    def _from(self, key: K, start: int) -> Windowed[K]:
        return Windowed(key, float(start), start + float(self.size) - 0.1)


class TumblingWindow(HoppingWindow):
    """Windows of size seconds, one after the other: Faust's table.tumbling(size)."""

    def __init__(self, size: int) -> None:
        super().__init__(size, size)


def _seconds(timestamp: int | None) -> float:
    if timestamp is None:
        raise ValueError("a record without a timestamp belongs to no window")
    return timestamp / 1000
