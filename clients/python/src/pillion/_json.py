"""Control messages as JSON text: dataclasses to text and back, checked. Pure.

Unknown fields are ignored. An unknown type is an error unless the message says that it is optional.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from ._codes import Code
from ._messages import BY_TYPE, MAX_INTEGER, Message
from .errors import MessageError


def encode(message: Message) -> str:
    """Write a message as compact JSON. Fields that equal their default are left out."""
    return json.dumps({"type": message.TYPE, **_to_json(message)}, separators=(",", ":"))


def decode(text: str | bytes) -> Message | None:
    """Read a message; None for an unknown one that is optional. Raises MessageError."""
    try:
        found: Any = json.loads(
            text if isinstance(text, str) else text.decode(), parse_constant=_no
        )
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a control message is not JSON: {_short(error)}") from None
    if not isinstance(found, dict):
        raise MessageError("a control message is not a JSON object")
    body = cast("dict[str, Any]", found)
    kind, request = body.get("type"), body.get("id")
    re = request if type(request) is int and 1 <= request <= MAX_INTEGER else 0
    if not isinstance(kind, str):
        raise MessageError("a control message has no type", re=re)
    known = BY_TYPE.get(kind)
    if known is None:
        if body.get("optional") is True:
            return None
        message = f"the message type {_short(kind)} is not known"
        raise MessageError(message, Code.UNKNOWN_TYPE, re=re)
    try:
        return cast("Message", _from_json(known, body, kind))
    except MessageError as error:
        raise MessageError(error.message, re=re) from None


def request_id(message: Message) -> int:
    """Give the id of a request, and 0 for every other message."""
    return getattr(message, "id", 0)


def _to_json(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part in fields(value):
        found = getattr(value, part.name)
        if (part.default is MISSING and part.default_factory is MISSING) or found != _default(part):
            made[part.name] = _plain(found)
    return made


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _to_json(value)
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value


def _default(part: Field[Any]) -> Any:
    return part.default if part.default is not MISSING else cast("Any", part.default_factory)()


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {part.name: hints[part.name] for part in fields(kind)}


def _from_json(kind: type, body: dict[str, Any], where: str) -> Any:
    hints = _hints(kind)
    given: dict[str, Any] = {}
    for part in fields(kind):
        at = f"{where}.{part.name}"
        if part.name not in body:
            if part.default is MISSING and part.default_factory is MISSING:
                raise MessageError(f"{at} is missing")
            continue
        given[part.name] = _read(hints[part.name], body[part.name], at)
    return kind(**given)


def _read(hint: Any, found: Any, at: str) -> Any:
    origin = get_origin(hint)
    if origin is Annotated:
        return _read_bounded(hint, found, at)
    if origin is Literal:
        if found not in get_args(hint):
            raise MessageError(f"{at} is not one of {', '.join(get_args(hint))}")
        return found
    if origin in (Union, UnionType):
        (inner,) = [each for each in get_args(hint) if each is not type(None)]
        return _read(inner, found, at)
    if origin is list:
        if not isinstance(found, list):
            raise MessageError(f"{at} is not a list")
        (inner,) = get_args(hint)
        return [_read(inner, each, at) for each in cast("list[Any]", found)]
    if origin is dict:
        return _read_map(hint, found, at)
    if is_dataclass(hint):
        if not isinstance(found, dict):
            raise MessageError(f"{at} is not an object")
        return _from_json(cast("type", hint), cast("dict[str, Any]", found), at)
    if type(found) is not hint:
        raise MessageError(f"{at} is not of type {cast('type', hint).__name__}")
    return found


def _read_bounded(hint: Any, found: Any, at: str) -> Any:
    inner, *bounds = get_args(hint)
    if inner is int:
        low, high = bounds
        if type(found) is not int or not low <= found <= high:
            raise MessageError(f"{at} is not a whole number from {low} to {high}")
        return found
    made = _read(inner, found, at)
    if isinstance(bounds[0], re.Pattern):
        allowed = cast("re.Pattern[str]", bounds[0])
        if not allowed.fullmatch(made):
            raise MessageError(f"{at} does not match {allowed.pattern}")
        return made
    if not made:
        raise MessageError(f"{at} is empty")
    return made


def _read_map(hint: Any, found: Any, at: str) -> dict[Any, Any]:
    if not isinstance(found, dict):
        raise MessageError(f"{at} is not an object")
    key_hint, inner = get_args(hint)
    nullable = get_origin(inner) in (Union, UnionType)  # checkpoints: null is an empty store
    made: dict[Any, Any] = {}
    for key, each in cast("dict[str, Any]", found).items():
        name: Any = key
        if key_hint is not str:
            if not (key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key):
                raise MessageError(f"{at} has a key that is not a stream")
            name = _read(key_hint, int(key), at)
        made[name] = None if each is None and nullable else _read(inner, each, at)
    return made


def _no(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _short(what: object) -> str:
    text = repr(what) if isinstance(what, str) else str(what)
    return text if len(text) <= 80 else text[:77] + "..."
