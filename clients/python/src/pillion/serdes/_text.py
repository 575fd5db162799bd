"""JSON as text: what json() reads and writes, whatever the type.

Written: compact, no ASCII escapes, numbers and strings as JSON.stringify of JavaScript does (which
is RFC 8785 too). Read: what RFC 8259 allows; of a name that comes twice the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecoder
from json.encoder import encode_basestring
from typing import Any, cast

from ..errors import SerdeError
from ._scalars import shown

MAX_EXACT = 2**53 - 1
"""The largest integer that every language reads exactly."""

quote: Callable[[str], str] = encode_basestring
"""Write a str in quotes: only `"`, `\\` and what is below U+0020 is escaped."""

_digits = float.__repr__
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Wrong(Exception):
    """A value that does not fit: what is wrong with it, and the path that leads to it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path = ""

    def under(self, part: str | int) -> Wrong:
        """Put a step before the path: the name of a field, the number of an item."""
        if isinstance(part, int):
            part = f"[{part}]"
        dot = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{part}{dot}{self.path}"
        return self

    def error(self, subject: str) -> SerdeError:
        """Make the sentence. subject stands for the whole, where no path leads further."""
        where = f"field '{self.path}'" if self.path else subject
        return SerdeError(f"{where} {self.text}")


def wrong(expected: str, found: object) -> Wrong:
    """Make the Wrong of a value of another type."""
    return Wrong(f"must be {expected}, not {'null' if found is None else type(found).__name__}")


def number(value: float) -> str:
    """Write a float: the fewest digits that read back as the same (-0.0 is written as 0)."""
    if value - value != 0.0:
        raise Wrong(f"is {value}, which JSON does not have")
    text = _digits(value)
    if text[-2:] == ".0":
        return text[:-2] if value else "0"
    return _positional(text) if "e" in text else text


def _positional(text: str) -> str:
    """Write what Python writes with an exponent as JavaScript does."""
    mantissa, _, exponent = text.partition("e")
    power = int(exponent)
    if -7 < power < 21:
        sign = "-" if mantissa.startswith("-") else ""
        digits = mantissa.lstrip("-").replace(".", "")
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        return sign + digits.ljust(power + 1, "0")
    return f"{mantissa}e{power:+d}"


def _refuse_lone_surrogates(found: Any) -> None:
    """JSON can escape half a character: it could not be written again."""
    stack: list[Any] = [found]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            parts = cast("dict[Any, Any]", each)
            stack += parts.keys()
            stack += parts.values()
        elif isinstance(each, list):
            stack += cast("list[Any]", each)
        elif isinstance(each, str):
            try:
                each.encode()
            except UnicodeEncodeError:
                raise lone_surrogate("the JSON") from None


def utf8(text: str) -> bytes:
    """Give the bytes of JSON text that was written here."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise lone_surrogate("the value") from None


def lone_surrogate(what: str) -> SerdeError:
    """Make the error of half a character, which no UTF-8 can hold."""
    return SerdeError(f"{what} has a lone surrogate in a str")


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite_float(text: str) -> float:
    found = float(text)
    if found - found != 0.0:
        raise ValueError(f"{text[:40]} does not fit a Double")
    return found


def _parser(decoder: JSONDecoder) -> Callable[[bytes], Any]:
    # The scanner is what JSONDecoder.decode calls, without its search for white space.
    scan = cast("Callable[[str, int], tuple[Any, int]]", cast("Any", decoder).scan_once)

    def run(data: bytes) -> Any:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise SerdeError(f"{shown(data)} is no UTF-8, see its byte {error.start}") from None
        try:
            try:
                found, end = scan(text, 0)
            except StopIteration:
                found, end = None, -1
            if end != len(text):  # white space around it, or an error that decode words well
                found = decoder.decode(text)
        except RecursionError:
            raise SerdeError("the JSON is nested too deeply") from None
        except ValueError as error:
            raise SerdeError(f"{shown(data)} is no JSON: {error}") from None
        if "\\u" in text and _SURROGATE.search(text):
            _refuse_lone_surrogates(found)
        return found

    return run


parse = _parser(JSONDecoder(parse_constant=_no_constant, parse_float=_finite_float))
"""Read JSON. Raises SerdeError; every number is finite, every str can be written again."""

parse_typed = _parser(JSONDecoder(parse_constant=_no_constant))
"""Read JSON of which each float will be checked by who asks. Otherwise like parse."""
