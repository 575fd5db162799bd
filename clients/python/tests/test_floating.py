"""What an async handler leaves running at its end: nothing of it gets into another one's unit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pillion import Context, Record, Skip, UsageError, Worker
from pillion.testing import TestDriver


def test_what_a_failed_handler_left_running_does_not_write_into_the_next_unit() -> None:
    app = Worker("g", on_error=Skip())
    words = app.topic("words", key=str, value=str)
    counts = app.table("counts", key=str, value=int, default=int)
    lists = app.table("lists", key=str, value=list[int], default=list)
    late, done = asyncio.Event(), asyncio.Event()
    errors: list[Exception] = []

    @app.each(words, tables=[counts, lists])
    async def handle(record: Record[str, str], ctx: Context) -> None:
        table = ctx[counts]
        if record.value == "good":
            late.set()
            await done.wait()
            table["good"] = 1
            return

        async def behind() -> None:
            rows = ctx[lists]
            walk = iter(rows.items())
            await late.wait()
            uses: list[Callable[[], object]] = [
                lambda: table.update(bad=1),
                lambda: table.pop("good", None),
                lambda: table.setdefault("bad", 1),
                table.clear,
                lambda: table["good"],
                lambda: table.get("good"),
                lambda: "good" in table,
                lambda: len(table),
                lambda: rows["bad"].append(1),
                lambda: list(table),
                lambda: list(walk),
                lambda: ctx[counts],
            ]
            for use in uses:
                try:
                    use()
                except UsageError as error:
                    errors.append(error)
            done.set()

        async def fails() -> None:
            raise RuntimeError("no")

        await asyncio.gather(behind(), fails())

    with TestDriver(app) as driver:
        driver.send_many(words, [("k", "bad"), ("k", "good")])
        assert driver.table(counts) == {"good": 1}
        assert driver.table(lists) == {}
    assert len(errors) == 12
    assert all("is used after it has returned" in str(error) for error in errors)


def test_a_handler_that_waits_for_all_it_starts_has_its_table() -> None:
    app = Worker("g")
    words = app.topic("words", key=str, value=str)
    counts = app.table("counts", key=str, value=int, default=int)

    @app.each(words, tables=[counts])
    async def handle(record: Record[str, str], ctx: Context) -> None:
        async def one(key: str) -> None:
            await asyncio.sleep(0)
            ctx[counts][key] += 1

        await asyncio.gather(*(one(f"{record.value}{n}") for n in range(3)))

    with TestDriver(app) as driver:
        driver.send_many(words, [("k", "a"), ("k", "b"), ("k", "a")])
        assert driver.table(counts) == {"a0": 2, "a1": 2, "a2": 2, "b0": 1, "b1": 1, "b2": 1}
