"""What a worker declares: sets of sources and tables, global tables, outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._codes import Code
from ._messages import (
    FlatTableDeclaration,
    GlobalDeclaration,
    SetDeclaration,
    TableDeclaration,
)
from .errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka takes as the name of a topic


@dataclass(frozen=True, slots=True)
class Table:
    """A table that this worker writes. Its truth is the changelog topic.

    Without a changelog's name it is ``<group>-<name>-changelog``; a missing one is created.
    """

    name: str
    changelog: str = ""
    sources: Sequence[str] = ()
    """Outside of a Set: the topics that it is kept with, without them those with its partitions."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A read-only table of a set: its truth is a topic that others write.

    The topic is partitioned like the set's sources, by the same keys. The table is whole before the
    first record comes, and follows its topic from then on.
    """

    name: str
    topic: str
    sources: Sequence[str] = ()
    """As in Table."""


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
    sources: list[str] = field(default_factory=list[str])
    tables: list[FlatTableDeclaration] = field(default_factory=list[FlatTableDeclaration])
    globals: list[GlobalDeclaration] = field(default_factory=list[GlobalDeclaration])
    outputs: list[str] = field(default_factory=list[str])
    group: str = ""


TableList = Sequence[Table | SourceTable | str]


def declare(
    sets: Sequence[Set],
    globals_: Sequence[Global],
    outputs: Sequence[str],
    group: str | None,
    sources: Sequence[str] = (),
    tables: TableList = (),
) -> Declaration:
    """Turn what the user wrote into what hello carries. Raises UsageError in one sentence."""
    for what, given in (("outputs", outputs), ("sources", sources), ("tables", tables)):
        if isinstance(given, str):
            raise _bad(f"{what} is the string {given!r}; give a list")
    if sets and (sources or tables):
        raise _bad(
            "there are sets and also sources or tables outside of them; use one or the other"
        )
    if tables and not sources:
        raise _bad("tables are declared, but no sources; name the topics that they are kept with")
    for each in sets:
        if isinstance(each.sources, str) or not each.sources:
            raise _bad(f"set {each.name!r} needs a list of one or more source topics")
    made = Declaration(
        sets=[SetDeclaration(s.name, list(s.sources), [_table(t) for t in s.tables]) for s in sets],
        sources=list(sources),
        tables=[_flat(each, sources) for each in tables],
        globals=[GlobalDeclaration(each.name, each.topic) for each in globals_],
        outputs=list(outputs),
        group=group or "",
    )
    every = [t for s in made.sets for t in s.tables]
    names = [s.name for s in made.sets] + [t.name for t in (*every, *made.tables)]
    topics = [topic for s in made.sets for topic in s.sources] + made.sources
    topics += [x for t in (*every, *made.tables) for x in (t.changelog, t.source_topic) if x]
    for name in (
        names + topics + [x for g in made.globals for x in (g.name, g.topic)] + made.outputs
    ):
        if not _NAME.fullmatch(name):
            raise _bad(f"{name!r} is no name; use 1 to 249 letters, digits, dots, _ and -")
    _once("set or global table", [s.name for s in made.sets] + [g.name for g in made.globals])
    _once("source topic", [topic for s in made.sets for topic in s.sources] + made.sources)
    _once("table", [t.name for t in (*every, *made.tables)] + [g.name for g in made.globals])
    _once("output", made.outputs)
    return made


def _table(table: Table | SourceTable | str) -> TableDeclaration:
    if isinstance(table, str):
        return TableDeclaration(table)
    if table.sources:
        raise _bad(f"table {table.name!r} of a set names sources; the set has them already")
    if isinstance(table, SourceTable):
        return TableDeclaration(table.name, source_topic=table.topic)
    return TableDeclaration(table.name, changelog=table.changelog)


def _flat(table: Table | SourceTable | str, sources: Sequence[str]) -> FlatTableDeclaration:
    if isinstance(table, str):
        return FlatTableDeclaration(table)
    with_ = list(table.sources)
    if strange := [each for each in with_ if each not in sources]:
        raise _bad(f"table {table.name!r} is kept with {strange[0]!r}, which is not in sources")
    if isinstance(table, SourceTable):
        return FlatTableDeclaration(table.name, source_topic=table.topic, sources=with_)
    return FlatTableDeclaration(table.name, changelog=table.changelog, sources=with_)


def _once(what: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise _bad(f"the {what} {name!r} is declared twice; declare it once")


def _bad(message: str) -> UsageError:
    return UsageError(message, Code.BAD_DECLARATION)
