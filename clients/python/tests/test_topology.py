"""What an app's declarations add up to, and each mistake in one sentence."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, assert_type, cast

import pytest

from pillion import (
    Batch,
    Context,
    DeadLetter,
    HandlerFailed,
    Output,
    Record,
    Skip,
    Table,
    Topic,
    UsageError,
    Worker,
)
from pillion.testing import TestDriver


def handle(batch: Batch[Any, Any], ctx: Context) -> None: ...


def one(record: Record[Any, Any], ctx: Context) -> None: ...


def tick(ctx: Context) -> None: ...


def test_what_is_declared_is_told_to_the_sidecar() -> None:
    app = Worker("g")
    orders = app.topic("orders", key=str, value=str)
    payments = app.topic("payments", key=str, value=int)
    clicks = app.topic("clicks", key=bytes, value=bytes)
    open_ = app.table("open", key=str, value=int)
    users = app.source_table("users", key=str, value=str, topic="users-v2")
    places = app.global_table("places", key=str, value=str)
    app.output("out", key=str, value=str)
    app.join(orders, payments)
    app.process(orders, tables=[open_, places])(handle)
    app.each(payments, tables=[open_, users])(one)
    app.process(clicks)(handle)
    made = app.topology()
    told = made.declaration
    assert [(s.name, s.sources) for s in told.sets] == [
        ("orders", ["orders", "payments"]),
        ("clicks", ["clicks"]),
    ]
    assert [(t.name, t.source_topic) for t in told.sets[0].tables] == [
        ("open", ""),
        ("users", "users-v2"),
    ]
    assert [(g.name, g.topic) for g in told.globals] == [("places", "places")]
    assert (told.outputs, told.group) == (["out"], "g")
    assert made.sets["orders"].tables == [open_, users]


def test_types_are_inferred() -> None:
    app = Worker()
    topic = app.topic("t", key=str, value=int)
    assert_type(topic, Topic[str, int])
    assert_type(app.output("o", key=str, value=bytes), Output[str, bytes])
    assert_type(app.table("t", key=str, value=float, default=float), Table[str, float])


def test_a_global_table_called_like_a_topic() -> None:
    app = Worker("g")
    topic = app.topic("planes", key=str, value=str)
    planes = app.global_table("planes", key=str, value=str)
    app.process(topic, tables=[planes])(handle)
    assert [s.name for s in app.topology().declaration.sets] == ["planes-set"]


Mistake = Callable[[Worker, "Topic[str, str]", "Topic[str, str]"], object]


def shared_table(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    table = app.table("t", key=str, value=str)
    app.process(a, tables=[table])(handle)
    app.process(b, tables=[table])(handle)


def no_handler(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.process(a)(handle)


def two_handlers(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.process(a)(handle)
    app.each(a)(one)
    app.process(b)(handle)


def unused_table(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.table("t", key=str, value=str)
    both(app, a, b)


def both(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.process(a)(handle)
    app.process(b)(handle)


def foreign_table(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.process(a, tables=[Worker().table("t", key=str, value=str)])(handle)
    app.process(b)(handle)


def foreign_topic(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.process(Worker().topic("c", key=str, value=str))(handle)


def foreign_ticker_topic(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.every(seconds=1, topic=Worker().topic("c", key=str, value=str))(tick)


def foreign_dead_letters(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    app.each(a, on_error=DeadLetter(Worker().output("dlq", key=bytes, value=bytes)))(one)
    app.process(b)(handle)


def foreign_join(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.join(a, Worker().topic("c", key=str, value=str))


def ticks_of_two_sets(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.every(seconds=1)(tick)


def no_time(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.every(topic=a)(tick)


def output_twice(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.output("o", key=str, value=str)
    app.output("o", key=str, value=str)


def bad_name(app: Worker, a: Topic[str, str], b: Topic[str, str]) -> None:
    both(app, a, b)
    app.output("no way", key=str, value=str)


MISTAKES: dict[Mistake, str] = {
    shared_table: "table 't' is used with the topics 'a' and 'b', which are two sets; read them "
    "together with app.join(), or keep a table for each",
    no_handler: "topic 'b' has no handler; decorate a function with @app.process or @app.each, or "
    "leave it out",
    two_handlers: "topic 'a' has two handlers, handle and one; let one call the other",
    unused_table: "table 't' is used by no handler; name it in tables=[...] of one",
    foreign_table: "handle uses the Table 't', which is no table of this app; make it with "
    "app.table()",
    foreign_topic: "handle handles the Topic 'c', which app.topic() did not make",
    foreign_ticker_topic: "@app.every of tick names the Topic 'c', which app.topic() did not make",
    foreign_dead_letters: "the dead letters of one go to the Output 'dlq', which app.output() did "
    "not make",
    foreign_join: "app.join() names the Topic 'c', which app.topic() did not make",
    ticks_of_two_sets: "@app.every of tick runs once per task of a set, and there are 2 sets; name "
    "the topic or tables of one",
    no_time: "@app.every of tick needs a time of more than 0",
    output_twice: "the output 'o' is declared twice; declare it once and use what comes back",
    bad_name: "'no way' is no name; use 1 to 249 letters, digits, dots, _ and -",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_mistakes(mistake: Mistake) -> None:
    app = Worker("g")
    a, b = (app.topic(name, key=str, value=str) for name in "ab")

    def declare() -> None:
        mistake(app, a, b)
        app.topology()

    with pytest.raises(UsageError) as caught:
        declare()
    assert str(caught.value) == f"{MISTAKES[mistake]} (bad_declaration)"


def test_an_app_without_topics() -> None:
    with pytest.raises(UsageError, match="there is no topic"):
        Worker("g").topology()


def test_dead_letters_of_the_whole_app_go_to_an_output_of_it() -> None:
    app = Worker("g", on_error=DeadLetter(Worker().output("dlq", key=bytes, value=bytes)))
    with pytest.raises(UsageError, match="the dead letters of the app go to the Output 'dlq'"):
        app.topology()


def test_joined_over_others_are_one_set() -> None:
    app = Worker("g")
    a, b, c = (app.topic(name, key=str, value=str) for name in "abc")
    for each in (a, b, c):
        app.process(each)(handle)
    app.join(c, b)
    app.join(a, b)
    assert [(s.name, s.sources) for s in app.topology().declaration.sets] == [
        ("a", ["a", "b", "c"])
    ]


def test_a_table_that_only_runs_by_time_uses() -> None:
    app = Worker("g")
    a, b = (app.topic(name, key=str, value=str) for name in "ab")
    table = app.table("t", key=str, value=str)
    places = app.global_table("places", key=str, value=str)
    app.process(a)(handle)
    app.process(b)(handle)
    app.every(seconds=1, topic=b, tables=[table, places])(tick)
    app.every(seconds=2, tables=[table])(tick)
    made = app.topology()
    assert made.sets["b"].tables == [table]
    assert [ticker.seconds for ticker in made.sets["b"].tickers] == [1, 2]


def generator(record: object, ctx: object) -> Generator[None]:
    yield


async def async_generator(record: object, ctx: object) -> AsyncGenerator[None]:
    yield


def no_context(record: object) -> None: ...


class Wrong:
    """What only those write who check no types; each is one sentence at its line."""

    def __init__(self) -> None:
        self.app: Any = Worker("g")
        self.topic = self.app.topic("a", key=str, value=str)
        self.table = self.app.table("t", key=str, value=str)
        self.typed = self.app.output("typed", key=str, value=str)

    def __call__(self, what: str) -> None:
        app, topic = self.app, self.topic
        match what:
            case "generator":
                app.each(topic)(generator)
            case "async generator":
                app.process(topic)(async_generator)
            case "arguments":
                app.each(topic)(no_context)
            case "ticker":
                app.every(seconds=1)(one)
            case "no parentheses":
                app.each(one)
            case "one table":
                app.each(topic, tables=self.table)(one)
            case "a name":
                app.each(topic, tables="t")(one)
            case "a class":
                app.each(topic, on_error=Skip)(one)
            case "a word":
                app.each(topic, on_error="skip")(one)
            case "typed dead letters":
                app.each(topic, on_error=DeadLetter(self.typed))(one)
            case "a value":
                app.table("u", key=str, value=list[int], default=[])
            case "interval":
                Worker(commit_interval=cast("Any", "5s"))
            case "replicas":
                Worker(replicas=-1)
            case _:
                raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (
            "generator",
            "generator has a yield, so that nothing of it would run; make",
        ),
        ("async generator", "async_generator has a yield, so that nothing of it would run"),
        ("arguments", "no_context must take (record, ctx)"),
        ("ticker", "one must take (ctx)"),
        ("no parentheses", "@app.each needs the topic: @app.each(topic, tables=[...]), not one"),
        ("one table", "tables= of one is a list: write tables=[t]"),
        ("a name", "tables= of one is a list of tables, not 't'"),
        ("a class", "on_error of one is a class; write Skip()"),
        (
            "a word",
            "on_error of one must be Stop(), Skip(), DeadLetter(output) or a func",
        ),
        (
            "typed dead letters",
            "the dead letters of one are written as they came; their out",
        ),
        ("a value", "default= of table 'u' must be a function: list, not []"),
        ("interval", "commit_interval must be a number from 0 on, not '5s'"),
        ("replicas", "replicas must be an int from 0 on, not -1"),
    ],
)
def test_what_types_would_have_told(what: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Wrong()(what)
    assert caught.value.message.startswith(says)


def test_nothing_is_declared_while_the_app_runs() -> None:
    app = Worker("g")
    topic = app.topic("a", key=str, value=str)

    @app.each(topic)
    def on_record(record: Record[str, str], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        app.table("late", key=str, value=str)

    says = "the table 'late' is declared while the app runs"
    with pytest.raises(HandlerFailed, match=says), TestDriver(app) as driver:
        driver.send(topic, "k", "v")
