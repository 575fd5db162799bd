"""What a worker declares: sets of sources and tables, global tables, outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._codes import Code
from ._messages import GlobalDeclaration, SetDeclaration, TableDeclaration
from .errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka takes as the name of a topic


@dataclass(frozen=True, slots=True)
class Table:
    """A table that this worker writes. Its truth is the changelog topic.

    Without a changelog's name it is ``<group>-<name>-changelog``; a missing one is created.
    """

    name: str
    changelog: str = ""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A read-only table of a set: its truth is a topic that others write.

    The topic is partitioned like the set's sources, by the same keys. The table is whole before the
    first record comes, and follows its topic from then on.
    """

    name: str
    topic: str


@dataclass(frozen=True, slots=True)
class Global:
    """A read-only table of which this worker holds every partition: Tables.lookup finds a key."""

    name: str
    topic: str


@dataclass(frozen=True, slots=True)
class Set:
    """Source topics that are read together, and the tables kept with them: one task per partition.

    All their topics have the same number of partitions. A task sees the rows of its partition only.
    """

    name: str
    sources: Sequence[str]
    tables: Sequence[Table | SourceTable | str] = ()
    """A plain string is a Table of that name."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """All of it, checked for what can be seen without Kafka."""

    sets: list[SetDeclaration] = field(default_factory=list[SetDeclaration])
    globals: list[GlobalDeclaration] = field(default_factory=list[GlobalDeclaration])
    outputs: list[str] = field(default_factory=list[str])
    group: str = ""


def declare(
    sets: Sequence[Set], globals_: Sequence[Global], outputs: Sequence[str], group: str | None
) -> Declaration:
    """Turn what the user wrote into what hello carries. Raises UsageError in one sentence."""
    if isinstance(outputs, str):
        raise _bad(f"outputs is the string {outputs!r}; give a list of topics")
    for each in sets:
        if isinstance(each.sources, str) or not each.sources:
            raise _bad(f"set {each.name!r} needs a list of one or more source topics")
    made = Declaration(
        sets=[SetDeclaration(s.name, list(s.sources), [_table(t) for t in s.tables]) for s in sets],
        globals=[GlobalDeclaration(each.name, each.topic) for each in globals_],
        outputs=list(outputs),
        group=group or "",
    )
    names = [s.name for s in made.sets] + [t.name for s in made.sets for t in s.tables]
    topics = [topic for s in made.sets for topic in s.sources]
    topics += [x for s in made.sets for t in s.tables for x in (t.changelog, t.source_topic) if x]
    for name in (
        names + topics + [x for g in made.globals for x in (g.name, g.topic)] + made.outputs
    ):
        if not _NAME.fullmatch(name):
            raise _bad(f"{name!r} is no name; use 1 to 249 letters, digits, dots, _ and -")
    _once("set or global table", [s.name for s in made.sets] + [g.name for g in made.globals])
    _once("source topic", [topic for s in made.sets for topic in s.sources])
    _once("table", [t.name for s in made.sets for t in s.tables] + [g.name for g in made.globals])
    _once("output", made.outputs)
    return made


def _table(table: Table | SourceTable | str) -> TableDeclaration:
    if isinstance(table, str):
        return TableDeclaration(table)
    if isinstance(table, SourceTable):
        return TableDeclaration(table.name, source_topic=table.topic)
    return TableDeclaration(table.name, changelog=table.changelog)


def _once(what: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise _bad(f"the {what} {name!r} is declared twice; declare it once")


def _bad(message: str) -> UsageError:
    return UsageError(message, Code.BAD_DECLARATION)
