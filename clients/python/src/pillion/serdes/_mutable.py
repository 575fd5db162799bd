"""Whether a value of a type may be changed in place; if so, a table encodes it again at commit."""

from __future__ import annotations

import dataclasses
import enum
from datetime import date, datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from ._hints import bare, fields_of, library_of

_FIXED = {str, bytes, int, float, bool, NoneType, None, datetime, date, UUID, Decimal}


def may_change(hint: Any) -> bool:
    """Say so of a type. What is not known to be fixed may change."""
    return not _fixed(hint, set())


def _fixed(hint: Any, within: set[Any]) -> bool:
    hint = bare(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return True
    if origin in (Union, UnionType, tuple, frozenset):
        return all(each is Ellipsis or _fixed(each, within) for each in args)
    if hint is Any or not isinstance(hint, type):  # Any is a class itself
        return False
    if hint in _FIXED or issubclass(hint, enum.Enum) or hint in within:
        return True
    return all(_fixed(each, within | {hint}) for each in _frozen_fields(cast("type[Any]", hint)))


def _frozen_fields(hint: type[Any]) -> list[Any]:
    """Give the types of the fields of a frozen class; of any other class what is not fixed."""
    library = library_of(hint)
    if library == "pydantic":
        config = hint.model_config
        frozen = config.get("frozen") and config.get("extra") != "allow"
    elif library == "msgspec":
        frozen = hint.__struct_config__.frozen
    else:
        frozen = dataclasses.is_dataclass(hint) and cast("Any", hint).__dataclass_params__.frozen
    return list(fields_of(hint).values()) if frozen else [Any]
