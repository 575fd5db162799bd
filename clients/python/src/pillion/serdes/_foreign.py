"""Types of pydantic and msgspec, which read and write JSON themselves.

Neither is imported unless the program has: a type of theirs is how we come here. Their JSON is
compact UTF-8 too, but numbers may be written in another form (`1.0`). NaN, which both would
quietly write as null, is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any

from ..errors import SerdeError
from . import _any
from ._base import Decode, Encode
from ._hints import library_of
from ._text import Wrong, parse, utf8


@dataclass
class _Library:
    """What a library does with one type.

    plain: the value as what JSON holds. exact: whether no null in the JSON of a value stands for
    NaN; False where that cannot be told at once.
    """

    dump: Encode
    load: Decode
    plain: Callable[[Any], Any]
    exact: Callable[[Any, bytes], bool]


def codec(library: str, of: Any, *, canonical: bool) -> tuple[Encode, Decode]:
    """Make what encodes and decodes a type of a library. Raises Wrong for one that it refuses."""
    if canonical and not library_of(of):
        raise Wrong(f"is made of a class of {library}: as a key use a dataclass")
    try:
        made = _pydantic(of) if library == "pydantic" else _msgspec(of)
    except Exception as error:
        raise Wrong(f"is refused by {library}: {_why(error)}") from error
    dump, load, plain, exact = made.dump, made.load, made.plain, made.exact
    write = _any.writer(canonical=canonical)
    only = of if isinstance(of, type) else None

    def encode(value: Any) -> bytes:
        if only is not None and value.__class__ is not only:
            raise SerdeError(f"the value must be {only.__name__}, not {type(value).__name__}")
        try:
            if canonical:
                return utf8(write(plain(value)))
            data = dump(value)
            if b"null" in data and not exact(value, data):
                write(plain(value))  # refuses NaN
        except SerdeError:
            raise
        except Wrong as error:
            raise error.error("the value") from None
        except Exception as error:
            raise SerdeError(f"the value is refused by {library}: {_why(error)}") from error
        return data

    def decode(data: bytes) -> Any:
        try:
            return load(data)
        except SerdeError:
            raise
        except Exception as error:
            raise SerdeError(f"the JSON is refused by {library}: {_why(error)}") from error

    return encode, decode


def _pydantic(of: Any) -> _Library:
    adapter = importlib.import_module("pydantic").TypeAdapter(of)
    # warnings: what does not fit its field. round_trip: without what is computed.
    same = {"by_alias": True, "round_trip": True, "warnings": "error"}

    def dump(value: Any) -> bytes:
        data: bytes = adapter.dump_json(value, **same)
        return data

    def load(data: bytes) -> Any:
        if b"NaN" in data or b"Infinity" in data:
            parse(data)  # which refuses them unless they are text
        return adapter.validate_json(data)

    def plain(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", **same)

    def exact(value: Any, _data: bytes) -> bool:
        fields: dict[str, Any] | None = getattr(value, "__dict__", None)
        return (
            fields is not None
            and not getattr(value, "__pydantic_extra__", None)
            and all(
                each.__class__ in _SINGLE or (each.__class__ is float and each - each == 0.0)
                for each in fields.values()
            )
        )

    return _Library(dump, load, plain, exact)


_SINGLE = {str, int, bool, NoneType}


def _msgspec(of: Any) -> _Library:
    msgspec = importlib.import_module("msgspec")
    load: Decode = msgspec.json.Decoder(of).decode
    write: Encode = msgspec.json.Encoder(order="deterministic").encode  # sorts sets

    def dump(value: Any) -> bytes:
        data = write(value)
        load(data)  # it is not checked otherwise
        return data

    def plain(value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True)

    def exact(value: Any, data: bytes) -> bool:
        return bool(load(data) == value)

    return _Library(dump, load, plain, exact)


LONGEST = 300  # characters of what a library says


def _why(error: Exception) -> str:
    """Say the first thing that is wrong, in one line."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        found: Any = errors()
        where = ".".join(str(part) for part in found[0]["loc"])
        return f"{where}: {found[0]['msg']}" if where else str(found[0]["msg"])
    # Some begin with a heading: the reason stands in the lines behind it.
    return " ".join(str(error).split())[:LONGEST] or type(error).__name__
