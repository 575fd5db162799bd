"""JSON without a type: null, bool, int, float, str, list, dict with str keys.

What is read back equals what was written; so a tuple, which would come back as a list, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

from ._text import MAX_EXACT, Wrong, number, quote

Writer = Callable[[Any], str]

_INEXACT = "is past 2^53-1, which not every language reads exactly: use str"


def integer(value: int) -> str:
    """Write an int, any size."""
    try:
        return int.__repr__(value)
    except ValueError:
        raise Wrong("is an int of too many digits") from None


def exact(value: int) -> str:
    """Write an int that every language reads exactly."""
    if not -MAX_EXACT <= value <= MAX_EXACT:
        raise Wrong(_INEXACT)
    return int.__repr__(value)


def untyped_number(value: float) -> str:
    """Write a float where an int may stand too: digits alone would be read as an int, another."""
    text = number(value)
    return float.__repr__(value) if abs(value) >= 1e16 and "e" not in text else text


def exact_number(value: float) -> str:
    """Write a float where an int may stand too, in the only form that it has."""
    text = number(value)
    if abs(value) > MAX_EXACT and "e" not in text:
        raise Wrong(_INEXACT)
    return text


def boolean(value: bool) -> str:
    """Write a bool."""
    return "true" if value else "false"


def order(name: str) -> bytes:
    """Sort names as RFC 8785 does: by UTF-16 code units."""
    return name.encode("utf-16-be", "surrogatepass")


def writer(*, canonical: bool) -> Writer:
    """Make what writes any value that JSON has. It raises Wrong."""

    def write(value: Any) -> str:
        return writers[value.__class__](value)

    def array(value: list[Any]) -> str:
        at = 0
        parts: list[str] = []
        try:
            for each in value:
                parts.append(writers[each.__class__](each))
                at += 1
        except Wrong as error:
            raise error.under(at) from None
        return f"[{','.join(parts)}]"

    def members(value: dict[str, Any]) -> str:
        name = None
        parts: list[str] = []
        try:
            for key, each in sort(value).items() if canonical else value.items():
                name = None
                if key.__class__ is not str and not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise name_wrong(key)
                name = key
                parts.append(f"{quote(key)}:{writers[each.__class__](each)}")
        except Wrong as error:
            raise (error if name is None else error.under(name)) from None
        return f"{{{','.join(parts)}}}"

    writers = _Writers(
        {
            str: quote,
            int: exact if canonical else integer,
            float: exact_number if canonical else untyped_number,
            bool: boolean,
            NoneType: _null,
            list: array,
            dict: members,
        }
    )
    return write


def sort(value: dict[str, Any]) -> dict[str, Any]:
    """Put names in the order of RFC 8785."""
    for name in value:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise name_wrong(name)
    return {name: value[name] for name in sorted(value, key=order)}


def name_wrong(name: object) -> Wrong:
    """Make the Wrong of a dict's key that JSON would turn into text."""
    return Wrong(f"has a key that is {type(name).__name__}, not str")


def _null(_value: None) -> str:
    return "null"


class _Writers(dict[type, Writer]):
    """Writers by class; a subclass is written as what it is equal to."""

    def __missing__(self, kind: type) -> Writer:
        for base in (str, int, float, list, dict):
            if issubclass(kind, base):
                return self[base]
        raise Wrong(f"must be null, bool, int, float, str, list or dict, not {kind.__name__}")
