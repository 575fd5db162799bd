"""What an app says of itself: topics, tables, outputs, and the functions that handle records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..serdes import Serde, SerdeLike, serde_of
from ._checks import bad, check_default, check_function, check_policy, check_tables, check_topic
from ._context import Context
from ._declared import DeclaredTable, GlobalTable, Output, SourceTable, Table, Topic
from ._policy import OnError
from ._records import Batch, Record
from ._topology import Declared, Handler, Ticker

K = TypeVar("K")
V = TypeVar("V")


class Declarations:
    """The part of a Worker that is written down before it runs.

    Raises UsageError, in one sentence: at once for a type that is not understood or a name that is
    declared twice; when the app starts for what only the whole of it shows.
    """

    def __init__(self, group: str | None) -> None:
        self._declared = Declared(group)
        self._started = False  # what is declared from then on would not count

    # -- what there is --------------------------------------------------------------------------

    def topic(self, name: str, *, key: SerdeLike[K], value: SerdeLike[V]) -> Topic[K, V]:
        """Declare a source topic. It needs a handler: @app.process or @app.each."""
        made = Topic(name, _key("topic", name, key), _value("topic", name, value))
        self._once("topic", name, self._declared.topics)
        self._declared.topics.append(made)
        return made

    def output(self, name: str, *, key: SerdeLike[K], value: SerdeLike[V]) -> Output[K, V]:
        """Declare a topic that handlers write to, with ctx.send()."""
        made = Output(name, _key("output", name, key), _value("output", name, value))
        self._once("output", name, self._declared.outputs)
        self._declared.outputs.append(made)
        return made

    def table(
        self,
        name: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        default: Callable[[], V] | None = None,
        changelog: str | None = None,
    ) -> Table[K, V]:
        """Declare a table that handlers keep.

        Its truth is the changelog topic: ``<group>-<name>-changelog``, or the one that is named; a
        missing one is created. default makes the value of a key that has none.
        """
        check_default(name, default)
        serdes = _key("table", name, key), _value("table", name, value)
        made = Table(name, *serdes, default, changelog or "")
        self._add_table(made)
        return made

    def source_table(
        self, name: str, *, key: SerdeLike[K], value: SerdeLike[V], topic: str | None = None
    ) -> SourceTable[K, V]:
        """Declare a read-only table: the last value of each key of a topic that others write.

        The topic (called like the table unless it is named) is partitioned like the source, by the
        same keys. The table is whole before the first record comes, and follows its topic.
        """
        serdes = _key("table", name, key), _value("table", name, value)
        made = SourceTable(name, *serdes, topic or name)
        self._add_table(made)
        return made

    def global_table(
        self, name: str, *, key: SerdeLike[K], value: SerdeLike[V], topic: str | None = None
    ) -> GlobalTable[K, V]:
        """Declare a read-only table of which every worker has every partition."""
        serdes = _key("table", name, key), _value("table", name, value)
        made = GlobalTable(name, *serdes, topic or name)
        self._add_table(made)
        return made

    def join(self, *topics: Topic[Any, Any]) -> None:
        """Read topics together: their handlers share tables, and a task has a partition of each.

        They have the same number of partitions, and records that belong together the same key.
        """
        self._declared.joins.append(topics)

    # -- what is done ---------------------------------------------------------------------------

    def process(
        self,
        topic: Topic[K, V],
        *,
        tables: Sequence[DeclaredTable] = (),
        on_error: OnError | None = None,
    ) -> Callable[
        [Callable[[Batch[K, V], Context], object]], Callable[[Batch[K, V], Context], object]
    ]:
        """Handle the topic in batches, with ``def`` or ``async def``.

        The unit is the batch: when the handler raises, nothing of it is committed and the program
        stops; the next start begins with it. on_error is asked for records that do not decode.
        """
        check_topic("@app.process", topic)

        def decorate(
            function: Callable[[Batch[K, V], Context], object],
        ) -> Callable[[Batch[K, V], Context], object]:
            self._add_handler(topic, function, tables, on_error, each=False)
            return function

        return decorate

    def each(
        self,
        topic: Topic[K, V],
        *,
        tables: Sequence[DeclaredTable] = (),
        on_error: OnError | None = None,
    ) -> Callable[
        [Callable[[Record[K, V], Context], object]], Callable[[Record[K, V], Context], object]
    ]:
        """Handle the topic record by record, with ``def`` or ``async def``.

        The unit is the record: when the handler raises, what it has done for this record is undone,
        and on_error says how it goes on.
        """
        check_topic("@app.each", topic)

        def decorate(
            function: Callable[[Record[K, V], Context], object],
        ) -> Callable[[Record[K, V], Context], object]:
            self._add_handler(topic, function, tables, on_error, each=True)
            return function

        return decorate

    def every(
        self,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        tables: Sequence[DeclaredTable] = (),
        topic: Topic[Any, Any] | None = None,
    ) -> Callable[[Callable[[Context], object]], Callable[[Context], object]]:
        """Call a function by time, once per task, between batches; what it does is committed.

        It has the tables that are named, or all. An app of several sets names tables or the topic
        of one. A call that is late is made once, not made up for.
        """

        def decorate(function: Callable[[Context], object]) -> Callable[[Context], object]:
            name = _name_of(function)
            self._check(name, function, ("ctx",), tables, None)
            total = seconds + 60 * minutes + 3600 * hours
            ticker = Ticker(name, function, total, tuple(tables), topic)
            self._declared.tickers.append(ticker)
            return function

        return decorate

    # -- inside ---------------------------------------------------------------------------------

    def _add_table(self, table: DeclaredTable) -> None:
        self._once("table", table.name, self._declared.tables)
        self._declared.tables.append(table)

    def _add_handler(
        self,
        topic: Topic[Any, Any],
        function: Callable[..., object],
        tables: Sequence[DeclaredTable],
        on_error: OnError | None,
        *,
        each: bool,
    ) -> None:
        name = _name_of(function)
        arguments = ("record" if each else "batch", "ctx")
        self._check(name, function, arguments, tables, on_error)
        self._declared.handlers.append(
            Handler(name, topic, function, each, tuple(tables), on_error)
        )

    def _check(
        self,
        name: str,
        function: object,
        arguments: tuple[str, ...],
        tables: object,
        on_error: object,
    ) -> None:
        self._open(name)
        check_function(name, function, arguments)
        check_tables(name, tables)
        check_policy(name, on_error)

    def _open(self, name: str) -> None:
        if self._started:
            bad(f"{name} is declared while the app runs; declare it before")

    def _once(self, what: str, name: str, made: Sequence[Any]) -> None:
        self._open(f"the {what} {name!r}")
        if any(each.name == name for each in made):
            bad(f"the {what} {name!r} is declared twice; declare it once and use what comes back")


def _key(what: str, name: str, given: SerdeLike[K]) -> Serde[K]:
    return serde_of(given, key=True, where=f"the key of {what} {name!r}")


def _value(what: str, name: str, given: SerdeLike[V]) -> Serde[V]:
    return serde_of(given, key=False, where=f"the value of {what} {name!r}")


def _name_of(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", repr(function))
