"""TestDriver with apps of several topics and tables, and with records that do not decode."""

from __future__ import annotations

from pillion import Batch, Context, DeadLetter, Record, Skip, Worker
from pillion.testing import TestDriver


def test_source_and_global_tables() -> None:
    app = Worker("g")
    visits = app.topic("visits", key=str, value=str)
    names = app.source_table("names", key=str, value=str)
    places = app.global_table("places", key=str, value=str, topic="all-places")
    out = app.output("out", key=str, value=str)

    @app.each(visits, tables=[names, places])
    def on_visit(visit: Record[str, str], ctx: Context) -> None:
        assert visit.key is not None
        assert visit.value is not None
        name, place = ctx[names].get(visit.key, "?"), ctx[places].get(visit.value, "?")
        ctx.send(out, key=visit.key, value=f"{name} in {place}")

    with TestDriver(app, partitions=4) as driver:
        driver.send(visits, "1", "x")
        driver.put(names, "1", "Ann")
        driver.put(places, "x", "Oslo")
        driver.put(places, "y", "Bergen")
        driver.send(visits, "1", "x")
        driver.put(names, "1", "Anna")
        driver.put(places, "x", None)
        driver.send(visits, "1", "x")
        driver.send(visits, "1", "y")
        assert [value for _, value in driver.outputs(out)] == [
            "? in ?", "Ann in Oslo", "Anna in ?", "Anna in Bergen",
        ]  # fmt: skip
        assert driver.table(names) == {"1": "Anna"}
        assert driver.table(places) == {"y": "Bergen"}
        driver.restart()
        driver.send(visits, "1", "y")
        assert driver.outputs(out)[-1] == ("1", "Anna in Bergen")


def test_joined_topics_share_a_table() -> None:
    app = Worker("g")
    orders, payments = (
        app.topic("orders", key=str, value=int),
        app.topic("payments", key=str, value=int),
    )
    app.join(orders, payments)
    due = app.table("due", key=str, value=int, default=int)

    @app.each(orders, tables=[due])
    def on_order(order: Record[str, int], ctx: Context) -> None:
        assert order.key is not None
        ctx[due][order.key] += order.value or 0

    @app.process(payments, tables=[due])
    def on_payments(batch: Batch[str, int], ctx: Context) -> None:
        for key, paid in batch.items():
            assert key is not None
            ctx[due][key] -= paid or 0
            if not ctx[due][key]:
                del ctx[due][key]

    with TestDriver(app, partitions=2) as driver:
        driver.send(orders, "a", 5)
        driver.send(orders, "b", 7)
        driver.send(payments, "a", 2)
        assert driver.table(due) == {"a": 3, "b": 7}
        driver.send(payments, "b", 7)
        assert driver.table(due) == {"a": 3}
        assert driver.changelog(due, partition=0) + driver.changelog(due, partition=1) == (
            driver.changelog(due)
        )
        assert ("b", None) in driver.changelog(due)


def test_what_an_app_writes_it_reads() -> None:
    app = Worker("g")
    raw, clean = app.topic("raw", key=str, value=str), app.topic("clean", key=str, value=str)
    to_clean = app.output("clean", key=str, value=str)
    seen = app.table("seen", key=str, value=str)

    @app.each(raw)
    def tidy(record: Record[str, str], ctx: Context) -> None:
        ctx.send(to_clean, key=record.key, value=(record.value or "").strip())

    @app.each(clean, tables=[seen])
    def keep(record: Record[str, str], ctx: Context) -> None:
        ctx[seen][record.key or ""] = record.value or ""

    with TestDriver(app, partitions=3) as driver:
        driver.send(raw, "k", "  v ", partition=0)
        assert driver.table(seen) == {"k": "v"}
        assert driver.outputs(to_clean) == [("k", "v")]


def test_dead_letters_and_skips() -> None:
    app = Worker("g")
    numbers = app.topic("numbers", key=str, value=int)
    words = app.topic("words", key=str, value=str)
    dead = app.output("dead", key=bytes, value=bytes)

    @app.each(numbers, on_error=DeadLetter(dead))
    def on_number(record: Record[str, int], ctx: Context) -> None:
        pass

    @app.each(words, on_error=Skip())
    def on_word(record: Record[str, str], ctx: Context) -> None:
        raise ValueError("no")

    with TestDriver(app) as driver:
        driver.send_raw(numbers, b"k", b"ab", headers=[("own", b"1")])
        driver.send(words, "k", "v")
        (letter,) = driver.records(dead)
        assert (letter.key, letter.value) == (b"k", b"ab")
        assert letter.headers[0] == ("own", b"1")
        assert dict(letter.headers)["pillion-offset"] == b"0"
