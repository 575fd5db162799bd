"""The serde of JSON, of a type or of any JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from ..errors import SerdeError, UsageError
from . import _foreign
from ._base import Decode, Encode, Serde
from ._build import Builder, Foreign
from ._kind import Kind
from ._mutable import may_change
from ._scalars import shown
from ._text import Wrong, lone_surrogate, parse, parse_typed

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Json(Generic[T]):
    """The serde that json makes. Its two functions are made for its type."""

    name: str
    canonical: bool
    mutable: bool
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


@overload
def json(*, canonical: bool = False) -> Serde[Any]: ...
@overload
def json(of: type[T], *, canonical: bool = False) -> Serde[T]: ...
@overload
def json(of: Any, *, canonical: bool = False) -> Serde[Any]: ...
def json(of: Any = Any, *, canonical: bool = False) -> Serde[Any]:
    """Make a serde of JSON: compact UTF-8 without ASCII escapes, fields in declared order.

    of: dataclass, TypedDict, pydantic model, msgspec.Struct, list[X], dict[str, X], tuple, set,
    X | None, Enum, Literal, str, int, float, bool, datetime (with time zone), date, UUID, Decimal,
    and what is made of these; without it any JSON. A field that JSON has and the type does not is
    ignored; one that is missing takes its default. Values are checked both ways.

    canonical: equal values have equal bytes in every language (RFC 8785), which a key needs; bytes
    that are not canonical do not decode. Integers past 2^53-1 are refused then.

    Raises UsageError for a type that JSON cannot hold, or not so that it comes back equal.
    """
    name = "json" if of is Any else type_name(of)
    try:
        encode, decode = _codec(of, canonical)
        if canonical:
            decode = _strict(encode, decode)
        return Json(name, canonical, may_change(of), encode, decode)
    except Wrong as error:
        raise UsageError(f"{name}: {error.error('it').message}") from None


def _codec(of: Any, canonical: bool) -> tuple[Encode, Decode]:
    builder = Builder(canonical=canonical)
    try:
        kind = builder.kind(of)
    except Foreign as foreign:
        return _foreign.codec(foreign.library, of, canonical=canonical)
    if of is not Any and "null" in kind.tokens:
        raise Wrong("may be None, which is null already, without JSON: leave it out")
    return _of_kind(kind, parse if builder.untyped else parse_typed)


def type_name(of: Any) -> str:
    """Name a type as programs write it."""
    plain = isinstance(of, type) and not getattr(of, "__args__", ())
    return of.__name__ if plain else str(of).replace("typing.", "")


def _of_kind(kind: Kind, parse: Decode) -> tuple[Encode, Decode]:
    read, write = kind.read, kind.write

    def encode(value: Any) -> bytes:
        try:
            return write(value).encode()
        except Wrong as error:
            raise error.error("the value") from error.__cause__
        except UnicodeEncodeError:
            raise lone_surrogate("the value") from None
        except RecursionError:
            raise SerdeError("the value is nested too deeply") from None

    def decode(data: bytes) -> Any:
        found = parse(data)
        try:
            return read(found)
        except Wrong as error:
            raise error.error("the JSON") from error.__cause__
        except RecursionError:
            raise SerdeError("the JSON is nested too deeply") from None

    return encode, decode


def _strict(encode: Encode, decode: Decode) -> Decode:
    """Make the decoder of keys. INVARIANT: it takes exactly what encode gives.

    Otherwise two keys in Kafka could be one key here, and a row could not be found by its key.
    """

    def run(data: bytes) -> Any:
        value = decode(data)
        due = encode(value)
        if due != data:
            raise SerdeError(f"{shown(data)} is no canonical JSON: that is {shown(due)}")
        return value

    return run
