"""From what stands in a declaration to a serde."""

from __future__ import annotations

import dataclasses
import json as stdlib
from typing import Any, TypeVar, cast, get_origin

from ..errors import UsageError
from ._base import Serde, SerdeLike
from ._hints import bare, is_typed_dict, library_of
from ._json import Json, json, type_name
from ._scalars import BYTES, FLOAT, INT, STR

T = TypeVar("T")

_SCALARS: dict[Any, Serde[Any]] = {str: STR, bytes: BYTES, int: INT, float: FLOAT}
_CONTAINERS = {list, dict, tuple, set, frozenset}


def serde_of(what: SerdeLike[T], *, key: bool, where: str) -> Serde[T]:
    """Give the serde of a type, or the serde that was given.

    str, bytes, int, float: as Kafka's serialisers write them. Dataclasses, TypedDicts, models of
    pydantic, structs of msgspec, list, dict and the like: JSON; as a key it must be canonical.
    where: what is declared, such as "the key of topic 'flights'". Raises UsageError.
    """
    try:
        return cast("Serde[T]", _find(what, key))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _find(what: Any, key: bool) -> Serde[Any]:
    what = bare(what)
    if isinstance(what, type) and what in _SCALARS:
        return _SCALARS[what]
    name = type_name(what)
    word = "key" if key else "value"
    if _is_json(what):
        if key:
            raise UsageError(
                f"{name} is JSON, and keys need one form of it: "
                f"write key=json({name}, canonical=True)"
            )
        return json(what)
    if isinstance(what, Json):
        if key and not what.canonical:
            of = "" if what.name == "json" else f"{what.name}, "
            raise UsageError(f"keys need one form of JSON: write key=json({of}canonical=True)")
        return cast("Serde[Any]", what)
    has_both = all(callable(getattr(what, each, None)) for each in ("encode", "decode"))
    if isinstance(what, type) or get_origin(what) is not None:
        if has_both:
            raise UsageError(f"{name} is a class: give an instance, {name}()")
        json(what, canonical=key)  # refuses what would be no use either
        canonical = ", canonical=True" if key else ""
        raise UsageError(
            f"{name} may be meant in several ways: write {word}=json({name}{canonical}), "
            "or give a Serde"
        )
    if what is json:
        raise UsageError("json is a function: write json(), or json(T) for a type")
    if what is stdlib:
        raise UsageError("this is Python's json module: write from pillion.serdes import json")
    if not has_both:
        raise UsageError(
            f"{what!r} is no type and no Serde: a Serde has the methods encode and decode"
        )
    return cast("Serde[Any]", what)


def _is_json(what: Any) -> bool:
    """Whether a type is an object or array of JSON, so that no other bytes can be meant."""
    if get_origin(what) in _CONTAINERS:
        return True
    if not isinstance(what, type):
        return False
    found = cast("type[Any]", what)
    return bool(
        found in _CONTAINERS
        or dataclasses.is_dataclass(found)
        or library_of(found)
        or is_typed_dict(found)
    )
