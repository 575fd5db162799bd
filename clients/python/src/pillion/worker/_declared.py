"""What an app declares. Worker.topic(), .output(), .table() and the like make these; they are also
the keys under which a Context finds things, and carry the types that a type checker infers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from ..serdes import Serde

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Topic(Generic[K, V]):
    """A source topic."""

    name: str
    key: Serde[K]
    value: Serde[V]


@dataclass(frozen=True, slots=True, eq=False)
class Output(Generic[K, V]):
    """A topic that handlers write to: ctx.send(output, key=..., value=...)."""

    name: str
    key: Serde[K]
    value: Serde[V]


@dataclass(frozen=True, slots=True, eq=False)
class Table(Generic[K, V]):
    """A table that handlers keep: ctx[table] is a MutableMapping[K, V] of the batch's partition."""

    name: str
    key: Serde[K]
    value: Serde[V]
    default: Callable[[], V] | None
    """Makes the value of a key that has none; None: t[key] raises KeyError then."""
    changelog: str
    """The topic that was named; "": ``<group>-<name>-changelog``."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceTable(Generic[K, V]):
    """A read-only table of the batch's partition: the last value of each key of a topic."""

    name: str
    key: Serde[K]
    value: Serde[V]
    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTable(Generic[K, V]):
    """A read-only table of which every worker has every partition."""

    name: str
    key: Serde[K]
    value: Serde[V]
    topic: str


AnyTable: TypeAlias = Table[K, V] | SourceTable[K, V] | GlobalTable[K, V]
DeclaredTable: TypeAlias = AnyTable[Any, Any]
