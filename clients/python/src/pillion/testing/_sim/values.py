"""Keys, values and records as scenarios write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from .kafka import NEXT, Stored
from .session import Session

_PLACE = re.compile(r'"\$(\w+)(?: ([^" ]+))?(?: ([^" ]+))?"')


def data(written: Any) -> bytes | None:
    """Read null, a string, {"hex"} or {"repeat", "times"}."""
    if written is None:
        return None
    if isinstance(written, str):
        return written.encode()
    if not isinstance(written, dict):
        raise ValueError(f"{written!r} is no key or value")
    form = cast("dict[str, Any]", written)
    if unknown := form.keys() - {"hex", "repeat", "times"}:
        raise ValueError(f"a key or value has no {', '.join(sorted(unknown))}")
    repeated: str = form.get("repeat", "") * form.get("times", 0)
    return bytes.fromhex(form.get("hex", "")) + repeated.encode()


def record(written: Any) -> Stored:
    """Read [key, value], [offset, key, value] or an object."""
    if isinstance(written, list):
        *offset, key, value = cast("list[Any]", written)
        return Stored(data(key), data(value), offset=offset[0] if offset else NEXT)
    form = cast("dict[str, Any]", written)
    if unknown := form.keys() - {"key", "value", "offset", "timestamp", "headers"}:
        raise ValueError(f"a record has no {', '.join(sorted(unknown))}")
    headers = [
        ((data(name) or b"").decode("utf-8", "surrogateescape"), data(value))
        for name, value in form.get("headers", ())
    ]
    return Stored(
        data(form.get("key")), data(form.get("value")), headers,
        form.get("timestamp"), form.get("offset", NEXT),
    )  # fmt: skip


def records(written: Any) -> list[Stored]:
    """Read a list of records."""
    return [record(each) for each in written]


def fill_in(session: Session, text: str, encode: Callable[[Any], str]) -> str:
    """Put numbers and names where a scenario writes "$id", "$epoch words/0" and the like."""

    def found(place: re.Match[str]) -> str:
        what, task, name = place.groups()
        if what == "id":
            return encode(session.next_id())
        epoch = session.tasks[task]
        if what == "stream":
            return encode((epoch.tables | epoch.sources)[name].id)
        return encode({"epoch": epoch.number, "task": epoch.wire_name}[what])

    return _PLACE.sub(found, text)
