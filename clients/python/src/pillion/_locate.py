"""Where is a key: the question and what comes of it. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

from . import _messages as m
from ._codes import Code
from .errors import LocateError, PillionError, UsageError, retriable

FEATURE = "locate"
OPEN_QUESTIONS = 256  # that a sidecar answers at once
ENVELOPE = 256  # at least the bytes of a question beside its key and names


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of the group, and where its worker said that others reach it ("" when nowhere)."""

    member: str
    address: str


@dataclass(frozen=True, slots=True)
class Shadow:
    """A member that keeps a copy."""

    member: str
    address: str
    lag: int | None
    """About how many records it was behind when it joined the group last; None: not known."""


@dataclass(frozen=True, slots=True)
class Located:
    """Which members of the group hold the task of a key."""

    task: str
    set: str
    partition: int
    active: Holder | None
    """Who processes the task; None while nobody does."""
    standbys: tuple[Shadow, ...]
    """Who keeps copies, the freshest first."""
    stale: bool
    """The group is changing: the active may not have the key any more."""
    here: bool = False
    """This worker is the active, and its tables are whole: Worker.locate says so."""


Answer = Located | PillionError
Done = Callable[[Answer], None]


def question(id_: int, table: str, key: bytes | None, set_: str, partition: int | None) -> m.Locate:
    """Build the message. Raises UsageError."""
    if not table and not set_:
        raise UsageError("locate() names neither a table nor a set; name one")
    if (key is None) is (partition is None):
        raise UsageError("locate() takes a key or a partition, and one of them")
    if key is not None and type(key) is not bytes:
        raise UsageError(f"locate() takes bytes as key, not {type(key).__name__}; encode it first")
    if partition is not None and not 0 <= partition < 1 << 31:
        raise UsageError(f"locate() takes a partition from 0 on, not {partition}")
    text = base64.b64encode(key or b"").decode()
    return m.Locate(id_, table=table, set=set_, key=text, partition=partition)


def answer(message: m.Located | m.Error) -> Answer:
    """Turn an answer into what the caller gets."""
    if isinstance(message, m.Error):
        return LocateError(message.message, message.code, retriable=retriable(message.code))
    active = message.active and Holder(message.active.member, message.active.address)
    standbys = tuple(
        Shadow(each.member, each.address, each.lag if each.lag >= 0 else None)
        for each in message.standbys
    )
    return Located(message.task, message.set, message.partition, active, standbys, message.stale)


def impossible(
    message: m.Locate, features: list[str], questions: int, max_control: int
) -> PillionError | None:
    """Say why the sidecar is not asked. A question that is too large would end the connection."""
    if FEATURE not in features:
        return LocateError("this sidecar cannot tell where a key is; update it", Code.UNKNOWN_TYPE)
    names = len(message.table.encode()) + len(message.set.encode())
    if len(message.key) + 6 * names + ENVELOPE > max_control:
        return LocateError(
            f"a question of more than {max_control} bytes, which is all that the sidecar takes; "
            "take a shorter key",
            Code.TOO_LARGE,
        )
    if questions >= OPEN_QUESTIONS:
        return LocateError(
            f"{questions} questions are open; await answers before asking more",
            Code.NOT_ALLOWED,
            retriable=True,
        )
    return None
