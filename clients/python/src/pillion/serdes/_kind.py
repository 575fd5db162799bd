"""How one type is read from JSON values and written as JSON text; the types of single values.

A reader takes what JSON holds (None, bool, int, float, str, list, dict) and gives the value; a
writer takes the value and gives JSON text. Both raise Wrong, and nothing else that is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from . import _any
from ._text import Wrong, number, quote, wrong

TOKENS = {
    NoneType: "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "object",
}


@dataclass
class Kind:
    """One type, as JSON.

    tokens: what its JSON may be; unions are told apart by it. classes: the classes of its values.
    same: a condition on `{x}` under which what JSON holds is the value already, "" for none.
    quick: a condition on `{x}`, and the text that is its JSON then. Both are Python, for the
    functions that _codegen compiles. scalar: an immutable value without parts.
    """

    name: str
    tokens: frozenset[str]
    classes: tuple[type, ...]
    read: Callable[[Any], Any]
    write: Callable[[Any], str]
    same: str = ""
    quick: tuple[str, str] | None = None
    scalar: bool = False


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a class; a bool is no int."""
    return isinstance(value, kind) and (kind is bool or value.__class__ is not bool)


def _leaf(kind: type, write: Callable[[Any], str], quick: str = "") -> Kind:
    name = kind.__name__

    def read(found: Any) -> Any:
        if found.__class__ is not kind:
            raise wrong(name, found)
        return found

    def checked(value: Any) -> str:
        if value.__class__ is not kind and not _is(value, kind):
            raise wrong(name, value)
        return write(value)

    same = f"{{x}}.__class__ is {name}"
    return Kind(
        name,
        frozenset((name,)),
        (kind,),
        read,
        checked,
        same,
        (same, quick) if quick else None,
        scalar=True,
    )


def _read_float(found: Any) -> float:
    if found.__class__ is int:
        try:
            return float(found)
        except OverflowError:
            raise Wrong("does not fit a Double") from None
    if found.__class__ is not float:
        raise wrong("float", found)
    if found - found != 0.0:
        raise Wrong("does not fit a Double")
    return found


def _write_float(value: Any) -> str:
    if value.__class__ is not float:
        if _is(value, int):
            return number(_read_float(int(value)))
        if not isinstance(value, float):
            raise wrong("float", value)
    return number(value)


def _read_null(found: Any) -> None:
    if found is not None:
        raise wrong("null", found)


def _write_null(value: Any) -> str:
    if value is not None:
        raise wrong("null", value)
    return "null"


_FINITE = "({x}.__class__ is float and {x} - {x} == 0.0)"
STR = _leaf(str, quote, "quote({x})")
BOOL = _leaf(bool, _any.boolean)
INT = _leaf(int, _any.integer, "repr({x})")
EXACT = _leaf(int, _any.exact)
NULL = Kind("null", frozenset(("null",)), (NoneType,), _read_null, _write_null, scalar=True)
FLOAT = Kind(
    "float",
    frozenset(("int", "float")),
    (float, int),
    _read_float,
    _write_float,
    _FINITE,
    ("{x}.__class__ is float", "number({x})"),
    scalar=True,
)


def int_or_float(*, canonical: bool) -> Kind:
    """Make the kind of int | float: an int stays one. 3.0 comes back as 3, which equals it."""
    integer = EXACT if canonical else INT
    write_number = _any.exact_number if canonical else _any.untyped_number

    def read(found: Any) -> Any:
        return found if found.__class__ is int else _read_float(found)

    def write(value: Any) -> str:
        if _is(value, int):
            return integer.write(value)
        if not isinstance(value, float):
            raise wrong("int or float", value)
        return write_number(value)

    return Kind("int or float", FLOAT.tokens, (int, float), read, write, scalar=True)


def _of_text(
    kind: type, pattern: str, read: Callable[[str], Any], write: Callable[[Any], str], form: str
) -> Kind:
    """Make the kind of a class whose JSON is a str of a form."""
    matches = re.compile(pattern, re.ASCII).fullmatch

    def reader(found: Any) -> Any:
        if found.__class__ is not str:
            raise wrong(f"{kind.__name__} ({form})", found)
        if not matches(found):
            raise Wrong(f"is no {kind.__name__}: {found[:40]!r} is not like {form}")
        try:
            return read(found)
        except (ValueError, ArithmeticError) as error:
            raise Wrong(f"is no {kind.__name__}: {found[:40]!r}: {error}") from None

    def writer(value: Any) -> str:
        if value.__class__ is not kind and (kind is date or not isinstance(value, kind)):
            raise wrong(kind.__name__, value)
        return f'"{write(value)}"'

    return Kind(kind.__name__, frozenset(("str",)), (kind,), reader, writer, scalar=True)


def _write_datetime(value: datetime) -> str:
    if value.utcoffset() is None:
        raise Wrong("has no time zone, so that it names no moment")
    try:
        return datetime.isoformat(value.astimezone(UTC)).removesuffix("+00:00") + "Z"
    except OverflowError:
        raise Wrong("is outside of the years 1 to 9999 in UTC") from None


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Wrong(f"is {value}, which is no number")
    return str(value)


DATETIME = _of_text(
    datetime,
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)",
    datetime.fromisoformat,
    _write_datetime,
    "2026-11-30T16:45:00Z",
)
DATE = _of_text(date, r"\d{4}-\d\d-\d\d", date.fromisoformat, date.isoformat, "2026-11-30")
UUID_ = _of_text(
    UUID,
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    UUID,
    str,
    "0b5a4f9c-26f5-4f0a-9b39-0e3c3c6c9f1d",
)
DECIMAL = _of_text(Decimal, r"-?\d+(\.\d+)?(E[+-]?\d+)?", Decimal, _write_decimal, "12.50")


def optional(kind: Kind) -> Kind:
    """Make the kind of X | None."""
    name = f"{kind.name} or null"

    def wider(error: Wrong) -> Wrong:
        if not error.path:
            error.text = error.text.replace(f"must be {kind.name}, not", f"must be {name}, not")
        return error

    def read(found: Any) -> Any:
        try:
            return None if found is None else kind.read(found)
        except Wrong as error:
            raise wider(error) from None

    def write(value: Any) -> str:
        try:
            return "null" if value is None else kind.write(value)
        except Wrong as error:
            raise wider(error) from None

    return Kind(
        name,
        kind.tokens | {"null"},
        (*kind.classes, NoneType),
        read,
        write,
        f"({{x}} is None or {kind.same})" if kind.same else "",
        kind.quick,
        scalar=kind.scalar,
    )


def union(kinds: list[Kind]) -> Kind:
    """Make the kind of a union whose members are told apart by the kind of their JSON."""
    name = " or ".join(kind.name for kind in kinds)
    readers = {
        found: kind.read
        for kind in kinds
        for found, token in TOKENS.items()
        if token in kind.tokens
    }
    writers = {each: kind.write for kind in kinds for each in kind.classes}

    def read(found: Any) -> Any:
        reader = readers.get(found.__class__)
        if reader is None:
            raise wrong(name, found)
        return reader(found)

    def write(value: Any) -> str:
        writer = writers.get(value.__class__)
        if writer is None:
            for kind, each in writers.items():
                if _is(value, kind):
                    return each(value)
            raise wrong(name, value)
        return writer(value)

    return Kind(
        name,
        frozenset(token for kind in kinds for token in kind.tokens),
        tuple(writers),
        read,
        write,
        scalar=all(kind.scalar for kind in kinds),
    )


def one_of(name: str, values: list[tuple[Any, Any]], integer: Callable[[int], str]) -> Kind:
    """Make the kind of a fixed choice (Enum, Literal), of pairs: what JSON holds, the value."""
    write = {str: quote, int: integer, bool: _any.boolean, NoneType: _write_null}
    known = {(found.__class__, found): value for found, value in values}
    texts = {(value.__class__, value): write[found.__class__](found) for found, value in values}
    choice = ", ".join(texts.values())

    def read(found: Any) -> Any:
        try:
            return known[found.__class__, found]
        except (KeyError, TypeError):
            raise Wrong(f"must be one of {choice}") from None

    def write_one(value: Any) -> str:
        try:
            return texts[value.__class__, value]
        except (KeyError, TypeError):
            raise Wrong(f"must be one of {choice} ({name})") from None

    return Kind(
        name,
        frozenset(TOKENS[found.__class__] for found, _ in values),
        tuple({value.__class__ for _, value in values}),
        read,
        write_one,
        scalar=True,
    )


def _write_name(value: Any) -> str:
    if not isinstance(value, str):
        raise _any.name_wrong(value)
    return quote(value)


NAME = replace(STR, write=_write_name)
"""A name in an object."""


def fixed(kinds: list[Kind]) -> Kind:
    """Make the kind of a tuple of so many items."""
    name = f"tuple[{', '.join(kind.name for kind in kinds)}]"

    def run(calls: list[Callable[[Any], Any]], items: Any) -> list[Any]:
        if len(items) != len(calls):
            raise Wrong(f"must have {len(calls)} items, not {len(items)}")
        made: list[Any] = []
        try:
            for call, each in zip(calls, items, strict=True):
                made.append(call(each))
        except Wrong as error:
            raise error.under(len(made)) from None
        return made

    def read(found: Any) -> Any:
        if found.__class__ is not list:
            raise wrong(name, found)
        return tuple(run(readers, found))

    def write(value: Any) -> str:
        if not isinstance(value, tuple):
            raise wrong(name, value)
        return f"[{','.join(run(writers, value))}]"

    readers, writers = [kind.read for kind in kinds], [kind.write for kind in kinds]
    scalar = all(kind.scalar for kind in kinds)
    return Kind(name, frozenset(("list",)), (tuple,), read, write, scalar=scalar)


def as_name(kind: Kind) -> Kind:
    """Make the kind of an int that is a name in an object: in quotes, as JSON writes it."""

    def read(found: str) -> Any:
        if not _INTEGER(found):
            raise Wrong("is a name that is no int")
        try:
            return kind.read(int(found))
        except ValueError:
            raise Wrong("is an int of too many digits") from None

    return Kind(kind.name, frozenset(("str",)), kind.classes, read, lambda v: f'"{kind.write(v)}"')


_INTEGER = re.compile(r"0|-?[1-9][0-9]*").fullmatch
