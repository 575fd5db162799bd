"""The files of spec/scenarios: read, checked, and played step by step.

spec/scenarios/README.md is the specification. A file with a step or a field that is not known is
refused when it is loaded.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, cast

from ... import _messages as m
from .sidecar import CREDIT, DEADLINES, LIMITS, Settings

LEVELS = ("stateless", "tables", "standby")
Verb = Callable[..., Awaitable[None]]


class Step(NamedTuple):
    """One line after the first."""

    line: int
    text: str
    verb: Verb
    value: Any
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a file."""

    case: str
    level: str
    job: str
    about: str
    hint: str
    listen: str = "tcp"
    proxy: bool = False
    extra: bool = False
    names: str = ""
    limits: dict[str, int] | None = None
    credit: dict[str, int] | None = None
    deadlines: dict[str, int] | None = None

    def settings(self) -> Settings:
        """What the sidecar of this case says."""
        return Settings(
            session=f"case {self.case}",
            limits=m.Limits(**self.limits) if self.limits else LIMITS,
            credit=m.Window(**self.credit) if self.credit else CREDIT,
            deadlines=m.Deadlines(**self.deadlines) if self.deadlines else DEADLINES,
            odd_names=self.names == "odd",
            extra=self.extra,
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case."""

    head: Head
    steps: list[Step]


def load(path: Path, verbs: dict[str, Verb]) -> Scenario:
    """Read a file. Raises ValueError that names the line and what is not known there."""
    head: Head | None = None
    steps: list[Step] = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
            if not isinstance(found, dict) or not found:
                raise ValueError("is no JSON object with a step")
            body = cast("dict[str, Any]", found)
            if head is None:
                head = _head(body, path.stem)
            elif (step := _step(line, text, body, verbs)) is not None:
                steps.append(step)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from None
    if head is None:
        raise ValueError(f"{path.name} has no line with the case")
    return Scenario(head, steps)


def _head(body: dict[str, Any], name: str) -> Head:
    unknown = body.keys() - {each.name for each in fields(Head)}
    if unknown:
        raise ValueError(f"unknown fields {', '.join(sorted(unknown))}")
    head = Head(**body)
    if head.case != name:
        raise ValueError(f"the case is called {head.case!r}, the file {name!r}")
    if head.level not in LEVELS or head.job not in ("stateless", "tables"):
        raise ValueError(f"level {head.level!r} or job {head.job!r} is not known")
    if head.listen not in ("tcp", "unix") or head.names not in ("", "odd"):
        raise ValueError(f"listen {head.listen!r} or names {head.names!r} is not known")
    return head


def _step(line: int, text: str, body: dict[str, Any], verbs: dict[str, Verb]) -> Step | None:
    name, *_ = body
    value = body.pop(name)
    if name == "note":
        return None
    if name not in verbs:
        raise ValueError(f"unknown step {name!r}")
    verb = verbs[name]
    inspect.signature(verb).bind(None, value, **body)  # TypeError: a field that nobody knows
    return Step(line, text, verb, value, body)
