"""What a handler gets beside its records: tables, outputs, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar, overload

from .._encode import Record as RawRecord
from ..errors import UsageError
from ..serdes import SerdeError
from ._declared import AnyTable, DeclaredTable, GlobalTable, Output, SourceTable, Table
from ._policy import describe
from ._work import Work

K = TypeVar("K")
V = TypeVar("V")


class Context:
    """The tables of the batch's partition by ctx[table], the outputs by ctx.send().

    Good for the call that it was made for. What is written becomes part of one commit, with the
    position of the records.
    """

    __slots__ = ("_allowed", "_outputs", "_progress", "_stale", "_who", "_work")

    def __init__(
        self,
        who: str,
        work: Work,
        allowed: Sequence[DeclaredTable],
        outputs: Sequence[Output[Any, Any]],
        stale: Callable[[], bool],
        progress: Callable[[], None],
    ) -> None:
        self._who = who
        self._work = work
        self._allowed = frozenset(allowed)
        self._outputs = frozenset(outputs)
        self._stale = stale
        self._progress = progress

    @overload
    def __getitem__(self, table: Table[K, V]) -> MutableMapping[K, V]: ...
    @overload
    def __getitem__(self, table: SourceTable[K, V] | GlobalTable[K, V]) -> Mapping[K, V]: ...
    def __getitem__(self, table: AnyTable[Any, Any]) -> Mapping[Any, Any]:
        """The table's rows: of this partition, or all of a global table.

        Raises UsageError for a table that the handler was not declared with: the program ends.
        """
        if table not in self._allowed:
            name = getattr(table, "name", table)
            raise UsageError(
                f"{self._who} uses table {name!r} without declaring it; add it to tables=[...]",
                "undeclared_table",
            )
        return self._work.rows(table)

    def send(
        self,
        output: Output[K, V],
        *,
        key: K | None = None,
        value: V | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> None:
        """Write a record to an output, as part of the commit.

        Its partition is that of its key, as with Kafka's Java client. timestamp is in milliseconds
        since 1970; without one it is the time of sending. Header values are bytes, or None for
        null; a name may come more than once.

        Raises SerdeError for a key or value that the output's serde cannot encode, and UsageError
        for an output that this app has not declared: the program ends.
        """
        if output not in self._outputs:
            name = getattr(output, "name", output)
            raise UsageError(
                f"{self._who} writes to {name!r}, which is no output of this app; make it with "
                "app.output()",
                "undeclared_output",
            )
        raw_key = None if key is None else self._encoded("key", output, output.key.encode, key)
        data = None if value is None else self._encoded("value", output, output.value.encode, value)
        self._work.send(output.name, RawRecord(raw_key, data, tuple(headers), timestamp))

    @property
    def task(self) -> str:
        """The task's name: the set's and the partition's."""
        return self._work.task.name

    @property
    def partition(self) -> int:
        """The partition."""
        return self._work.task.partition

    @property
    def stale(self) -> bool:
        """Whether the task has gone meanwhile: a long handler may give up, its work is dropped."""
        return self._stale()

    def progress(self) -> None:
        """Say, in the middle of long work, that it goes on: max_processing begins anew."""
        self._progress()

    def _encoded(
        self, what: str, output: Output[Any, Any], encode: Callable[[Any], bytes], value: object
    ) -> bytes:
        try:
            return encode(value)
        except Exception as error:
            raise SerdeError(
                f"a {what} for output {output.name!r} cannot be written: {describe(error)}"
            ) from error
