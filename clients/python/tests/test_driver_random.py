"""Whatever happens between records, tables and outputs are as if nothing had."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pillion import Batch, Context, Record, Worker
from pillion.testing import TestDriver

PARTITIONS = 2
EVENTS = ["send", "many", "revoke", "lose", "restart", "abort", "unknown", "landed", "standby",
          "promote", "tick", "inside"]  # fmt: skip
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, PARTITIONS - 1)), min_size=4, max_size=25
)


class App:
    """Counts with both kinds of handlers over two joined topics; what is asked happens inside."""

    def __init__(self) -> None:
        self.app = app = Worker("random")
        self.ones = app.topic("ones", key=str, value=int)
        self.twos = app.topic("twos", key=str, value=int)
        app.join(self.ones, self.twos)
        self.sums = app.table("sums", key=str, value=int, default=int)
        self.lists = app.table("lists", key=str, value=list[int], default=list[int])
        self.ticks = app.table("ticks", key=str, value=int, default=int)
        self.out = app.output("out", key=str, value=int)
        self.inside: list[int] = []
        """Partitions that are lost inside of the next handler."""

        @app.each(self.ones, tables=[self.sums, self.lists, self.ticks])
        def on_one(record: Record[str, int], ctx: Context) -> None:
            self.add(record.key or "", record.value or 0, ctx)

        @app.process(self.twos, tables=[self.sums, self.lists])
        async def on_twos(batch: Batch[str, int], ctx: Context) -> None:
            for key, value in batch.items():
                self.add(key or "", value or 0, ctx)

        @app.every(seconds=1, tables=[self.ticks])
        def tick(ctx: Context) -> None:
            ctx[self.ticks][f"of {ctx.partition}"] += 1

        self.driver = TestDriver(app, partitions=PARTITIONS)

    def add(self, key: str, value: int, ctx: Context) -> None:
        ctx[self.sums][key] += value
        ctx[self.lists][key].append(value)
        ctx.send(self.out, key=key, value=value)
        while self.inside:
            self.driver.lose(self.inside.pop())


@settings(max_examples=60)
@given(STEPS)
def test_nothing_is_lost_and_nothing_counts_twice(steps: list[Step]) -> None:
    a = App()
    sent: dict[str, list[int]] = {}
    number = 0

    def make(partition: int) -> tuple[str, int]:
        nonlocal number
        number += 1
        key = f"{partition}-{number % 3}"
        sent.setdefault(key, []).append(number)
        return key, number

    with a.driver as driver:
        for event, partition in steps:
            if event == "send":
                driver.send(a.ones, *make(partition), partition=partition)
            elif event == "many":
                pairs = [make(partition) for _ in range(3)]
                driver.send_many(a.twos, pairs, partition=partition)
            elif event in ("abort", "unknown", "landed"):
                if event == "abort":
                    driver.abort_next_commit()
                else:
                    driver.unknown_next_commit(landed=event == "landed")
            elif event == "inside":
                a.inside.append(partition)
            elif event == "tick":
                driver.advance(seconds=1)
            elif event == "restart":
                driver.restart()
            else:
                {"revoke": driver.revoke, "lose": driver.lose, "standby": driver.standby,
                 "promote": driver.promote}[event](partition)  # fmt: skip
        for partition in range(PARTITIONS):
            driver.promote(partition)
        check(a, sent)
        driver.restart()
        check(a, sent)


def check(a: App, sent: dict[str, list[int]]) -> None:
    assert dict(a.driver.table(a.sums)) == {key: sum(each) for key, each in sent.items()}
    lists = {key: Counter(each) for key, each in a.driver.table(a.lists).items()}
    assert lists == {key: Counter(each) for key, each in sent.items()}
    written = Counter(a.driver.outputs(a.out))
    assert written == Counter((key, value) for key, each in sent.items() for value in each)
