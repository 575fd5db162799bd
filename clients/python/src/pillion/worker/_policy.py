"""What happens to a record that cannot be processed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import PillionError
from ._declared import Output


@dataclass(frozen=True, slots=True)
class Stop:
    """Commit everything before the record and end the program with exit code 1.

    The next start begins with exactly that record (with @app.process: with its batch).
    """


@dataclass(frozen=True, slots=True)
class Skip:
    """Go on behind the record, as if it had not been there. It is logged."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Write the record to an output as it came, and go on.

    Key, value and headers are the record's own; these headers are added: ``pillion-error`` (what
    was wrong), ``pillion-topic``, ``pillion-partition`` and ``pillion-offset``.
    """

    output: Output[Any, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that could not be processed, as an on_error function gets it."""

    error: Exception
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    decoding: bool
    """Key or value did not decode; else the handler has raised (with @app.each only)."""


Verdict: TypeAlias = Stop | Skip | DeadLetter
OnError: TypeAlias = Verdict | Callable[[Failure], Verdict]


class HandlerFailed(PillionError):
    """User code has raised, or a record did not decode, and on_error said Stop.

    What was before the record is committed; the next start begins with the record. The error itself
    is its __cause__.
    """

    code = "handler_failed"


def verdict_of(policy: OnError, failure: Failure) -> Verdict:
    """Ask a policy. A function that fails or gives something else is an error of the program."""
    if isinstance(policy, Stop | Skip | DeadLetter):
        return policy
    said = policy(failure)
    if not isinstance(said, Stop | Skip | DeadLetter):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"on_error returned {said!r}; return Stop(), Skip() or DeadLetter(output)")
    return said


def failed_handler(name: str, where: str, error: Exception) -> HandlerFailed:
    """Say that user code has raised."""
    text = f"{name} has failed {where}: {describe(error)}"
    made = HandlerFailed(f"{text}; what was before is committed, and the next start begins there")
    made.__cause__ = error
    return made


def undecodable(where: str, error: Exception) -> HandlerFailed:
    """Say that a record does not decode."""
    text = f"the record at {where} cannot be processed: {describe(error)}"
    made = HandlerFailed(
        f"{text}; the next start begins with it (on_error: Skip or DeadLetter pass it over)",
        "undecodable",
    )
    made.__cause__ = error.__cause__
    return made


def dead_letter_headers(failure: Failure) -> list[tuple[str, bytes | None]]:
    """Make the headers that a dead letter gets beside its own."""
    return [
        ("pillion-error", describe(failure.error).encode("utf-8", "replace")),
        ("pillion-topic", failure.topic.encode()),
        ("pillion-partition", b"%d" % failure.partition),
        ("pillion-offset", b"%d" % failure.offset),
    ]


def describe(error: BaseException) -> str:
    """Say an error in one line."""
    if isinstance(error, PillionError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Told:
    """Which errors of handlers were logged with their traceback: the first of each place."""

    def __init__(self) -> None:
        self._places: set[tuple[str, int]] = set()

    def first(self, error: Exception) -> Exception | None:
        """Give the error when none was raised before where it was raised."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is None:
            return None
        place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        if place in self._places:
            return None
        self._places.add(place)
        return error
