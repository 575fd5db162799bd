"""What a handler gets beside its records: tables, outputs, and where it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar, cast, overload

from .._codes import Code
from .._encode import Record as RawRecord
from ..errors import UsageError
from ..serdes import SerdeError
from ._declared import AnyTable, DeclaredTable, GlobalTable, Output, SourceTable, Table
from ._policy import describe
from ._rows import Rows
from ._unit_rows import UnitRows
from ._work import Work

UNDECLARED_OUTPUT = Code.UNDECLARED_OUTPUT.value
UNDECLARED_TABLE = "undeclared_table"
PLAIN_HANDLER = "plain_handler"
# Codes of mistakes in the app itself: no record is at fault.
MISTAKES = {UNDECLARED_OUTPUT, UNDECLARED_TABLE, PLAIN_HANDLER}

K = TypeVar("K")
V = TypeVar("V")


class Context:
    """The tables of the batch's partition by ctx[table], the outputs by ctx.send().

    Good for the call that it was made for. What is written becomes part of one commit, with the
    position of the records.
    """

    __slots__ = (
        "_allowed",
        "_inside",
        "_lends",
        "_outputs",
        "_progress",
        "_stale",
        "_who",
        "_work",
    )

    def __init__(
        self,
        who: str,
        work: Work,
        allowed: Sequence[DeclaredTable],
        outputs: Sequence[Output[Any, Any]],
        inside: Callable[[], bool],
        stale: Callable[[], bool],
        progress: Callable[[], None] | None,
        *,
        lends: bool,
    ) -> None:
        self._who = who
        self._lends = lends  # it is of one call: what that leaves running must not write later
        self._work = work
        self._allowed = frozenset(allowed)
        self._outputs = frozenset(outputs)
        self._stale = stale
        self._progress = progress
        self._inside = inside

    @overload
    def __getitem__(self, table: Table[K, V]) -> MutableMapping[K, V]: ...
    @overload
    def __getitem__(self, table: SourceTable[K, V] | GlobalTable[K, V]) -> Mapping[K, V]: ...
    def __getitem__(self, table: AnyTable[Any, Any]) -> Mapping[Any, Any]:
        """The table's rows: of this partition, or all of a global table.

        Raises UsageError for a table that the handler was not declared with: the program ends.
        """
        self._look()
        if isinstance(table, str):
            raise UsageError(
                f"ctx[...] takes the table itself, not its name {table!r}", UNDECLARED_TABLE
            )
        if table not in self._allowed:
            name = getattr(table, "name", table)
            raise UsageError(
                f"{self._who} uses table {name!r} without declaring it; add it to tables=[...]",
                UNDECLARED_TABLE,
            )
        rows = self._work.rows(table)
        return UnitRows(rows, self._look) if self._lends and isinstance(rows, Rows) else rows

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
        self._look()
        if output not in self._outputs:
            name = getattr(output, "name", output)
            raise UsageError(
                f"{self._who} writes to {name!r}, which is no output of this app; make it with "
                "app.output() and give what that returns",
                UNDECLARED_OUTPUT,
            )
        check_headers(output.name, headers)
        if timestamp is not None and (type(timestamp) is not int or timestamp < 0):
            raise UsageError(
                f"the timestamp of a record for output {output.name!r} must be milliseconds, an "
                f"int from 0 on, not {timestamp!r}"
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
        """Whether the task has gone meanwhile: a long handler may give up, its work is dropped.

        Told while an async handler awaits.
        """
        return self._stale()

    def progress(self) -> None:
        """Say, in the middle of long work, that it goes on: max_processing begins anew.

        Only in an async handler, and sent at its next await: a plain one keeps the event loop.
        """
        self._look()
        if self._progress is None:
            raise UsageError(
                f"{self._who} is a plain function, which keeps the event loop, so that nothing can "
                "be sent; make it async, and await asyncio.sleep(0) after ctx.progress()",
                PLAIN_HANDLER,
            )
        self._progress()

    def _look(self) -> None:
        if not self._inside():
            raise UsageError(
                f"the context of {self._who} is used after it has returned; await there whatever "
                "it starts"
            )

    def _encoded(
        self, what: str, output: Output[Any, Any], encode: Callable[[Any], bytes], value: object
    ) -> bytes:
        try:
            return encode(value)
        except Exception as error:
            raise SerdeError(
                f"a {what} for output {output.name!r} cannot be written: {describe(error)}"
            ) from error


def waits(function: object) -> bool:
    """Whether a handler is async."""
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def check_headers(output: str, headers: object) -> None:
    """Refuse headers that no record can have. Raises UsageError."""
    if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
        raise UsageError(f"the headers of a record for output {output!r} must be a list of pairs")
    for header in cast("Sequence[Any]", headers):
        if not isinstance(header, tuple) or len(cast("tuple[Any, ...]", header)) != 2:
            raise UsageError(
                f"a header for output {output!r} must be a (name, value), not {header!r}"
            )
        name, value = cast("tuple[Any, Any]", header)
        if type(name) is not str:
            raise UsageError(
                f"the name of a header for output {output!r} must be str, not {name!r}"
            )
        if value is not None and type(value) is not bytes:
            raise UsageError(
                f"header {name!r} for output {output!r} must be bytes or None, not {value!r}"
            )
