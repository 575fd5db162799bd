"""on_error: what happens to a record that cannot be processed, and to what it has done."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aio import run
from pillion import (
    Batch,
    Context,
    DeadLetter,
    Failure,
    HandlerFailed,
    OnError,
    Record,
    Skip,
    Stop,
    UsageError,
    Worker,
)
from pillion.testing import FakeCommit
from pillion.worker._policy import describe
from working import Pair, staged

STAMP = "the timestamp of a record for output 'out' must be milliseconds, an int from 0 on, not"
NUMBER = b"\0\0\0\0\0\0\0\1"
RECORDS: list[Pair] = [(b"a", NUMBER), (b"b", b"bad"), (b"fail", NUMBER), (b"d", NUMBER)]


class App:
    """Adds numbers up; the key "fail" fails after it has written."""

    def __init__(self, on_error: OnError | None = None, *, each: bool = True) -> None:
        self.app = Worker("g", on_error=on_error)
        self.numbers = self.app.topic("numbers", key=str, value=int)
        self.sums = self.app.table("sums", key=str, value=int, default=int)
        self.out = self.app.output("out", key=str, value=int)
        self.dead = self.app.output("dead", key=bytes, value=bytes)
        self.seen: list[str] = []
        if each:
            self.app.each(self.numbers, tables=[self.sums])(self.on_number)
        else:
            self.app.process(self.numbers, tables=[self.sums])(self.on_numbers)

    def on_number(self, record: Record[str, int], ctx: Context) -> None:
        self.add(record.key, record.value, ctx)

    def on_numbers(self, batch: Batch[str, int], ctx: Context) -> None:
        for key, value in batch.items():
            self.add(key, value, ctx)

    def add(self, key: str | None, value: int | None, ctx: Context) -> None:
        assert key is not None
        assert value is not None
        self.seen.append(key)
        ctx[self.sums]["all"] += value
        ctx.send(self.out, key=key, value=value)
        if key == "fail":
            raise ValueError("this one")

    async def play(self, records: list[Pair]) -> FakeCommit:
        """Run until one batch is committed."""
        async with staged(self.app) as s:
            task = await s.open("numbers")
            await s.records(task, "numbers", *records)
            return await s.commit()


def total(commit: FakeCommit) -> int:
    """What the table's only row says."""
    [(_, value)] = commit.changelog["sums"]
    assert value is not None
    return int.from_bytes(value, "big")


@run
async def test_skip() -> None:
    it = App(Skip())
    commit = await it.play(RECORDS)
    assert (total(commit), it.seen) == (2, ["a", "fail", "d"])
    assert [key for key, _ in commit.outputs["out"]] == [b"a", b"d"]
    assert commit.message.source_next == {"numbers": 4}


@run
async def test_skipping_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pillion")
    await App(Skip()).play([*RECORDS, (b"fail", NUMBER)])
    ours = [record for record in caplog.records if record.name == "pillion"]
    assert [record.getMessage() for record in ours] == [
        "numbers/0 offset 1 is skipped: its value does not decode: 'bad' is no Long: 3 bytes "
        "instead of 8",
        "numbers/0 offset 2 is skipped: on_number has raised ValueError: this one",
        "numbers/0 offset 4 is skipped: on_number has raised ValueError: this one",
    ]
    # A traceback of the user's code, once for each place.
    assert [bool(record.exc_info) for record in ours] == [False, True, False]


@run
async def test_dead_letters() -> None:
    it = App()
    it.app = Worker("g")
    it.numbers = it.app.topic("numbers", key=str, value=int)
    it.sums = it.app.table("sums", key=str, value=int, default=int)
    it.out = it.app.output("out", key=str, value=int)
    it.dead = it.app.output("dead", key=bytes, value=bytes)
    it.app.each(it.numbers, tables=[it.sums], on_error=DeadLetter(it.dead))(it.on_number)
    commit = await it.play(RECORDS)
    assert total(commit) == 2
    assert commit.outputs["dead"] == [(b"b", b"bad"), (b"fail", NUMBER)]
    headers = dead_letter_headers(commit)
    assert headers[0]["pillion-error"].startswith(b"its value does not decode: ")
    assert headers[1] == {
        "pillion-error": b"ValueError: this one",
        "pillion-topic": b"numbers",
        "pillion-partition": b"0",
        "pillion-offset": b"2",
    }


def dead_letter_headers(commit: FakeCommit) -> list[dict[str, bytes]]:
    from pillion._frames import HEADERS, parse_headers

    for frame in commit.frames:
        if frame.flags & HEADERS:
            at, found = frame.headers_at, list[dict[str, bytes]]()
            for length in frame.header_lengths:
                pairs = parse_headers(frame.data[at : at + length])
                found.append({name: value or b"" for name, value in pairs})
                at += length
            return found
    raise AssertionError("no frame has headers")


@run
async def test_a_function_decides() -> None:
    told: list[Failure] = []

    def decide(failure: Failure) -> Skip | Stop:
        told.append(failure)
        return Skip() if failure.decoding else Stop()

    it = App(decide)
    commit = await it.play(RECORDS)
    assert (total(commit), commit.message.source_next) == (1, {"numbers": 2})
    assert [(each.offset, each.decoding, each.key, each.value) for each in told] == [
        (1, True, b"b", b"bad"),
        (2, False, b"fail", NUMBER),
    ]
    assert (told[1].topic, told[1].partition) == ("numbers", 0)
    assert isinstance(told[1].error, ValueError)


@run
async def test_a_function_that_fails_stops() -> None:
    def decide(failure: Failure) -> Skip:
        raise RuntimeError("cannot decide")

    it = App(decide)
    async with staged(it.app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", *RECORDS)
        assert (await s.commit()).message.source_next == {"numbers": 1}
        with pytest.raises(HandlerFailed, match="on_error of on_number has failed for numbers/0"):
            await s.work


@run
async def test_what_does_not_decode_stops_at_that_record() -> None:
    for each in (True, False):
        it = App(each=each)
        async with staged(it.app) as s:
            task = await s.open("numbers")
            await s.records(task, "numbers", *RECORDS)
            commit = await s.commit()
            assert (total(commit), commit.message.source_next) == (1, {"numbers": 1})
            with pytest.raises(HandlerFailed) as caught:
                await s.work
            assert caught.value.code == "undecodable"
            assert caught.value.message.startswith(
                "the record at numbers/0 offset 1 cannot be processed: its value does not decode: "
            )


@run
async def test_process_skips_what_does_not_decode_and_keeps_offsets() -> None:
    offsets: list[int] = []

    class Looks(App):
        def on_numbers(self, batch: Batch[str, int], ctx: Context) -> None:
            offsets.extend(batch.offsets)
            offsets.extend(record.offset for record in batch.records())
            super().on_numbers(batch, ctx)

    it = Looks(Skip(), each=False)
    commit = await it.play([(b"a", b"x"), (b"b", NUMBER), (b"c", b"y"), (b"d", NUMBER)])
    assert (total(commit), it.seen, offsets) == (2, ["b", "d"], [1, 3, 1, 3])


@run
async def test_process_keeps_what_is_before_the_record_that_it_stops_at() -> None:
    def stops_at_the_second(failure: Failure) -> Skip | Stop:
        return Skip() if failure.key == b"a" else Stop()

    records: list[Pair] = [(b"a", b"x"), (b"b", NUMBER), (b"c", b"y"), (b"d", NUMBER)]
    it = App(stops_at_the_second, each=False)
    commit = await it.play(records)
    assert (total(commit), it.seen, commit.message.source_next) == (1, ["b"], {"numbers": 2})


@run
async def test_process_does_not_skip_a_batch() -> None:
    it = App(Skip(), each=False)
    async with staged(it.app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", *RECORDS)
        with pytest.raises(HandlerFailed):
            await s.work
        assert s.worker.pending() == []


@run
async def test_a_batch_of_nothing_but_skipped_records_moves_the_position() -> None:
    for each in (True, False):
        commit = await App(Skip(), each=each).play([(b"a", b"x"), (b"b", b"y")])
        assert (commit.changelog, commit.message.source_next) == ({}, {"numbers": 2})


@run
async def test_a_value_that_does_not_encode_is_an_error_of_its_record() -> None:
    app = Worker("g", on_error=Skip())
    numbers = app.topic("numbers", key=str, value=int)
    lists = app.table("lists", key=str, value=list[int], default=list)

    @app.each(numbers, tables=[lists])
    def on_number(record: Record[str, int], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        rows = ctx[lists]["all"]
        rows.append(record.key if record.key == "fail" else record.value)  # type: ignore[arg-type]

    async with staged(app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", (b"a", NUMBER), (b"fail", NUMBER), (b"b", NUMBER))
        assert (await s.commit()).changelog == {"lists": [(b"all", b"[1,1]")]}


@run
async def test_what_no_record_can_have_is_an_error_of_its_record() -> None:
    wrong: list[dict[str, Any]] = [
        {"headers": [("a", "b")]},
        {"headers": [(b"a", b"b")]},
        {"headers": {"a": b"b"}},
        {"headers": [("a",)]},
        {"timestamp": 1.5},
        {"timestamp": -1},
    ]
    said: list[str] = []

    def note(failure: Failure) -> Skip:
        said.append(describe(failure.error))
        return Skip()

    app = Worker("g", on_error=note)
    numbers = app.topic("numbers", key=str, value=int)
    out = app.output("out", key=str, value=int)

    @app.each(numbers)
    def on_number(record: Record[str, int], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        ctx.send(out, key=record.key, value=record.value, **wrong[record.offset])

    async with staged(app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", *[(b"k", NUMBER)] * len(wrong))
        assert (await s.commit()).outputs == {}
    assert said == [
        "header 'a' for output 'out' must be bytes or None, not 'b'",
        "the name of a header for output 'out' must be str, not b'a'",
        "the headers of a record for output 'out' must be a list of pairs",
        "a header for output 'out' must be a (name, value), not ('a',)",
        f"{STAMP} 1.5",
        f"{STAMP} -1",
    ]


@run
async def test_a_context_is_good_for_its_call() -> None:
    app = Worker("g", on_error=Skip())
    numbers = app.topic("numbers", key=str, value=int)
    sums = app.table("sums", key=str, value=int, default=int)
    kept: list[Context] = []

    @app.each(numbers, tables=[sums])
    def on_number(record: Record[str, int], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        ctx[sums]["n"] += 1
        kept.append(ctx)

    async with staged(app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", (b"k", NUMBER))
        await s.commit()
        for use in (lambda: kept[0][sums], lambda: kept[0].progress()):
            with pytest.raises(UsageError, match="the context of on_number is used after it has"):
                use()


@run
async def test_progress_needs_a_handler_that_waits() -> None:
    app = Worker("g", on_error=Skip())
    numbers = app.topic("numbers", key=str, value=int)

    @app.each(numbers)
    def on_number(record: Record[str, int], ctx: Context) -> None:  # pyright: ignore[reportUnusedFunction]
        ctx.progress()

    async with staged(app) as s:
        task = await s.open("numbers")
        await s.records(task, "numbers", (b"k", NUMBER))
        with pytest.raises(UsageError, match="on_number is a plain function, which keeps"):
            await s.work
