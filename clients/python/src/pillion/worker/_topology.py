"""The topology that an app's declarations add up to: sets, tables, globals, outputs. Pure.

Topics that join() names, directly or over others, are one set; every other topic is a set of its
own. A table belongs to the set whose handlers use it. A set is called after its first topic.

Every mistake is a UsageError of one sentence, raised before anything is connected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import client
from .._declare import Declaration, declare
from ._checks import bad, shown
from ._declared import DeclaredTable, GlobalTable, Output, SourceTable, Table, Topic
from ._policy import DeadLetter, OnError, Told


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function under @app.process or @app.each."""

    name: str
    topic: Topic[Any, Any]
    function: Callable[[Any, Any], object]
    each: bool
    tables: Sequence[DeclaredTable]
    on_error: OnError | None


@dataclass(frozen=True, slots=True, eq=False)
class Ticker:
    """A function under @app.every."""

    name: str
    function: Callable[[Any], object]
    seconds: float
    tables: Sequence[DeclaredTable]
    topic: Topic[Any, Any] | None


@dataclass(slots=True)
class Declared:
    """Everything that was declared so far, in order."""

    group: str | None = None
    topics: list[Topic[Any, Any]] = field(default_factory=list[Topic[Any, Any]])
    outputs: list[Output[Any, Any]] = field(default_factory=list[Output[Any, Any]])
    tables: list[DeclaredTable] = field(default_factory=list[DeclaredTable])
    joins: list[Sequence[Topic[Any, Any]]] = field(default_factory=list[Sequence[Topic[Any, Any]]])
    handlers: list[Handler] = field(default_factory=list[Handler])
    tickers: list[Ticker] = field(default_factory=list[Ticker])


@dataclass(slots=True)
class SetPlan:
    """One set: its topics with their handlers, the tables kept with them, what runs by time."""

    name: str
    handlers: dict[str, Handler]
    """By topic."""
    tables: list[Table[Any, Any] | SourceTable[Any, Any]] = field(
        default_factory=list[Table[Any, Any] | SourceTable[Any, Any]]
    )
    tickers: list[Ticker] = field(default_factory=list[Ticker])


@dataclass(slots=True)
class Topology:
    """What the app is made of. declaration is what the sidecar is told of it."""

    sets: dict[str, SetPlan]
    globals: list[GlobalTable[Any, Any]]
    outputs: list[Output[Any, Any]]
    declaration: Declaration


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every task of an app."""

    commit_interval: float
    """Seconds; 0: after each batch."""
    on_error: OnError
    outputs: tuple[Output[Any, Any], ...]
    told: Told = field(default_factory=Told)


def topology(declared: Declared) -> Topology:
    """Add the declarations up. Raises UsageError in one sentence."""
    _known(declared)
    roots = _roots(declared)
    plans = _plans(declared, roots)
    _place_tables(declared, plans, roots)
    _place_tickers(declared, plans, roots)
    globals_ = [table for table in declared.tables if isinstance(table, GlobalTable)]
    taken = {table.name for table in globals_}
    sets: dict[str, SetPlan] = {}
    for plan in plans.values():
        if plan.name in taken:
            plan.name += "-set"  # a global table has the topic's name
        sets[plan.name] = plan
    declaration = declare(
        [_set(plan) for plan in plans.values()],
        [client.Global(table.name, table.topic) for table in globals_],
        [output.name for output in declared.outputs],
        declared.group,
    )  # fmt: skip
    return Topology(sets, globals_, declared.outputs, declaration)


def _known(declared: Declared) -> None:
    """Check that handlers name what this app has declared, and what is declared is used."""
    handled: dict[Topic[Any, Any], Handler] = {}
    for handler in declared.handlers:
        if handler.topic not in declared.topics:
            bad(f"{handler.name} handles {shown(handler.topic)}, which app.topic() did not make")
        if handler.topic in handled:
            bad(
                f"topic {handler.topic.name!r} has two handlers, {handled[handler.topic].name} and "
                f"{handler.name}; let one call the other"
            )
        handled[handler.topic] = handler
        if isinstance(handler.on_error, DeadLetter):
            check_output(declared, handler.on_error, handler.name)
    for name, tables in [
        (each.name, each.tables) for each in (*declared.handlers, *declared.tickers)
    ]:
        for table in tables:
            if table not in declared.tables:
                bad(
                    f"{name} uses {shown(table)}, which is no table of this app; make it with "
                    "app.table()"
                )
    for topic in declared.topics:
        if topic not in handled:
            bad(
                f"topic {topic.name!r} has no handler; decorate a function with @app.process or "
                "@app.each, or leave it out"
            )
    if not declared.topics:
        bad("there is no topic; name one with app.topic() and give it a handler")


def check_output(declared: Declared, policy: DeadLetter, who: str) -> None:
    """Refuse a dead letter that goes to an output of another app."""
    if policy.output not in declared.outputs:
        bad(
            f"the dead letters of {who} go to {shown(policy.output)}, which app.output() did not "
            "make"
        )


def _roots(declared: Declared) -> dict[Topic[Any, Any], Topic[Any, Any]]:
    """Find for each topic the first one of those that it is joined with."""
    group = {topic: [topic] for topic in declared.topics}
    for join in declared.joins:
        for topic in join:
            if topic not in group:
                bad(f"app.join() names {shown(topic)}, which app.topic() did not make")
        for other in join[1:]:
            one, two = group[join[0]], group[other]
            if one is not two:
                one += two
                group.update(dict.fromkeys(two, one))
    return {topic: min(joined, key=declared.topics.index) for topic, joined in group.items()}


def _plans(
    declared: Declared, roots: dict[Topic[Any, Any], Topic[Any, Any]]
) -> dict[Topic[Any, Any], SetPlan]:
    handlers = {handler.topic: handler for handler in declared.handlers}
    plans: dict[Topic[Any, Any], SetPlan] = {}
    for topic in declared.topics:
        plan = plans.setdefault(roots[topic], SetPlan(roots[topic].name, {}))
        plan.handlers[topic.name] = handlers[topic]
    return plans


def _place_tables(
    declared: Declared,
    plans: dict[Topic[Any, Any], SetPlan],
    roots: dict[Topic[Any, Any], Topic[Any, Any]],
) -> None:
    for table in declared.tables:
        users = [handler for handler in declared.handlers if table in handler.tables]
        if not users and not any(table in ticker.tables for ticker in declared.tickers):
            bad(f"table {table.name!r} is used by no handler; name it in tables=[...] of one")
        if isinstance(table, GlobalTable) or not users:
            continue  # what only runs by time places its tables itself
        first = users[0].topic
        for user in users:
            if roots[user.topic] is not roots[first]:
                bad(
                    f"table {table.name!r} is used with the topics {first.name!r} and "
                    f"{user.topic.name!r}, which are two sets; read them together with app.join(), "
                    "or keep a table for each"
                )
        plans[roots[first]].tables.append(table)


def _place_tickers(
    declared: Declared,
    plans: dict[Topic[Any, Any], SetPlan],
    roots: dict[Topic[Any, Any], Topic[Any, Any]],
) -> None:
    globals_ = [table for table in declared.tables if isinstance(table, GlobalTable)]
    for ticker in declared.tickers:
        if not ticker.seconds > 0:
            bad(f"@app.every of {ticker.name} needs a time of more than 0")
        topic = ticker.topic
        if topic is not None and topic not in roots:
            bad(f"@app.every of {ticker.name} names {shown(topic)}, which app.topic() did not make")
        named = [plan for plan in plans.values() if any(t in plan.tables for t in ticker.tables)]
        if topic is not None and plans[roots[topic]] not in named:
            named.append(plans[roots[topic]])
        if not named and len(plans) == 1:
            named = list(plans.values())
        if len(named) != 1:
            bad(
                f"@app.every of {ticker.name} runs once per task of a set, and there are "
                f"{len(named) or len(plans)} sets; name the topic or tables of one"
            )
        for table in ticker.tables:
            placed = any(table in plan.tables for plan in plans.values())
            if not isinstance(table, GlobalTable) and not placed:
                named[0].tables.append(table)
        tables = ticker.tables or [*named[0].tables, *globals_]
        named[0].tickers.append(replace(ticker, tables=tables))


def _set(plan: SetPlan) -> client.Set:
    return client.Set(plan.name, list(plan.handlers), [_table(table) for table in plan.tables])


def _table(table: Table[Any, Any] | SourceTable[Any, Any]) -> client.Table | client.SourceTable:
    if isinstance(table, SourceTable):
        return client.SourceTable(table.name, table.topic)
    return client.Table(table.name, table.changelog)
