"""The app of the simulation, and the plain model of what it must have done.

What a record does depends on the records of its own topic and partition alone, so that the model
needs nothing but the log up to a position: whatever failed, came again or was handed over between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pillion import Batch, Context, DeadLetter, Output, Record, Skip, Stop, Table, Worker
from pillion.worker import GlobalTable, OnError, SourceTable, Topic

Rows = dict[str, list[int]]
KINDS = [
    *("add", "add", "set", "del", "pop", "get", "peek", "default"),
    *("iter", "drop", "twice", "fail", "bad"),
]
BASE = [f"base{i}" for i in range(3)]  # rows that upstream tables always have


@dataclass(frozen=True)
class Op:
    """The value of a record: what is to be done, and a name of its own."""

    kind: str
    id: int
    topic: str = ""


class OpSerde:
    """Refuses "bad" ones until somebody forgives them."""

    mutable = False

    def __init__(self, forgiven: set[int]) -> None:
        self._forgiven = forgiven

    def encode(self, value: Op) -> bytes:
        return f"{value.kind} {value.id}".encode()

    def decode(self, data: bytes) -> Op:
        op = read(data)
        if op.kind == "bad" and op.id not in self._forgiven:
            raise ValueError("a bad one")
        return op


def read(data: bytes) -> Op:
    kind, id_ = data.decode().split()
    return Op(kind, int(id_))


@dataclass
class Plan:
    """One topic with its handler."""

    name: str
    set: str
    each: bool
    sync: bool
    policy: str
    """stop, skip or dead"""

    def passes_over(self, op: Op) -> bool:
        """Whether on_error takes the record away, for good."""
        wrong = op.kind == "bad" or (op.kind == "fail" and self.each)
        return wrong and self.policy != "stop"


class App:
    """Sets of topics that share tables; handlers and calls by time that watch what they see."""

    def __init__(self, rng: Random, plans: list[Plan], model: Model) -> None:
        self.rng = rng
        self.model = model
        self.plans = {plan.name: plan for plan in plans}
        self.forgiven: set[int] = set()
        self.wrong: list[str] = []
        """What handlers have seen that must not be."""
        self.inside: dict[str, int] = {}
        self.calls = 0
        self.worker = Worker("g", window=rng.choice([200, 1000, 1 << 20]))
        app = self.worker
        self.out: Output[str, list[int]] = app.output("out", key=str, value=list[int])
        self.complaints: Output[str, str] = app.output("complaints", key=str, value=str)
        self.dead: Output[bytes, bytes] = app.output("dead", key=bytes, value=bytes)
        self.everywhere: GlobalTable[str, int] = app.global_table("all", key=str, value=int)
        self.lists: dict[str, Table[str, list[int]]] = {}
        self.sums: dict[str, Table[str, int]] = {}
        self.names: dict[str, SourceTable[str, int]] = {}
        topics: dict[str, list[Topic[str, Op]]] = {}
        for plan in plans:
            topic = app.topic(plan.name, key=str, value=OpSerde(self.forgiven))
            topics.setdefault(plan.set, []).append(topic)
            self._handle(plan, topic)
        for joined in topics.values():
            app.join(*joined)
        for set_ in topics:
            self._tick(set_)

    def _tables(self, set_: str) -> list[Any]:
        if set_ not in self.lists:
            make = self.worker
            self.lists[set_] = make.table(
                f"lists-{set_}", key=str, value=list[int], default=list[int]
            )
            self.sums[set_] = make.table(f"sums-{set_}", key=str, value=int, default=int)
            self.names[set_] = make.source_table(f"names-{set_}", key=str, value=int)
        return [self.lists[set_], self.sums[set_], self.names[set_], self.everywhere]

    # -- handlers -------------------------------------------------------------------------------

    def _handle(self, plan: Plan, topic: Topic[str, Op]) -> None:
        policies: dict[str, OnError] = {
            "stop": Stop(),
            "skip": Skip(),
            "dead": DeadLetter(self.dead),
        }
        make = self.worker.each if plan.each else self.worker.process
        made = make(topic, tables=self._tables(plan.set), on_error=policies[plan.policy])

        def steps(work: Any, ctx: Context) -> Generator[None]:
            if not plan.each:
                batch: Batch[str, Op] = work
                for record in batch.records():
                    yield from self._record(plan, record, ctx)
            else:
                yield from self._record(plan, work, ctx)

        made(self._wrapped(plan.set, steps, sync=plan.sync))

    def _tick(self, set_: str) -> None:
        def steps(ctx: Context) -> Generator[None]:
            sums = ctx[self.sums[set_]]
            sums["ticks"] += 1
            yield
            ctx.send(self.out, key="tick", value=[sums["ticks"]])

        tables = self._tables(set_)
        seconds = self.rng.choice([0.1, 0.3, 2.0])
        made = self.worker.every(seconds=seconds, tables=tables)
        made(self._wrapped(set_, steps, sync=self.rng.random() < 0.5))

    def _wrapped(
        self, set_: str, steps: Callable[..., Generator[None]], *, sync: bool
    ) -> Callable[..., Any]:
        def watched(*args: Any) -> Generator[None]:
            ctx: Context = args[-1]
            task = ctx.task
            self.calls += 1
            self.inside[task] = self.inside.get(task, 0) + 1
            if self.inside[task] > 1:
                self.wrong.append(f"two handlers of {task} at a time")
            try:
                seen = self._upstream(set_, ctx, "begins")
                for _ in steps(*args):
                    yield
                    if (
                        self.rng.random() < 0.3
                        and self._upstream(set_, ctx, "goes on")[0] != seen[0]
                    ):
                        self._complain(ctx, "a source table has changed under a handler")
            finally:
                self.inside[task] -= 1

        def at_once(*args: Any) -> None:
            for _ in watched(*args):
                pass

        async def in_time(*args: Any) -> None:
            for _ in watched(*args):
                await asyncio.sleep(self.rng.choice([0, 0, 0.003, 0.05, 0.4]))

        return at_once if sync else in_time

    def _upstream(self, set_: str, ctx: Context, when: str) -> tuple[dict[str, int], ...]:
        seen = dict(ctx[self.names[set_]].items()), dict(ctx[self.everywhere].items())
        for rows in seen:
            if not rows.keys() >= set(BASE):
                self._complain(ctx, f"a handler {when} on a table that is not whole")
        return seen

    def _complain(self, ctx: Context, why: str) -> None:
        """Say with the unit itself that it is wrong: nobody minds unless it is committed."""
        ctx.send(self.complaints, key="wrong", value=why)

    def _record(self, plan: Plan, record: Record[str, Op], ctx: Context) -> Generator[None]:
        rows, sums = ctx[self.lists[plan.set]], ctx[self.sums[plan.set]]
        mine = f"{plan.name}:"
        if self.rng.random() < 0.3:
            have = {key: value for key, value in rows.items() if key.startswith(mine)}
            want = self.model.at(plan, ctx.partition, record.offset).rows
            if have != want:
                self._complain(ctx, f"{plan.name} {record.offset}: {have}, not {want}")
        op = record.value or Op("noop", 0)
        key = mine + (record.key or "")
        yield
        yield from act(op, mine, key, record.offset, rows)
        sums[plan.name] += 1
        ctx.send(self.out, key=plan.name, value=[record.offset, len(rows.get(key, []))])
        yield
        sums["total"] += 1
        if op.kind == "fail" and op.id not in self.forgiven:
            raise ValueError("it fails")


def act(op: Op, mine: str, key: str, offset: int, rows: Any) -> Generator[None]:
    """Do to a dict of lists what an operation says. Works on a table as on a dict."""
    match op.kind:
        case "add" | "fail" | "bad":
            rows[key].append(offset)
        case "set":
            made = rows[key] = [offset]
            yield
            made.append(-1)
        case "del":
            if key in rows:
                del rows[key]
        case "pop":
            rows.pop(key, None)
        case "get":
            found = rows.get(key)
            yield
            if found is not None:
                found.append(offset)
        case "peek":
            assert len(rows[key]) >= 0
        case "default":
            rows.setdefault(key, [7]).append(offset)
        case "iter":
            for each, value in rows.items():
                if each.startswith(mine) and len(value) < 4:
                    value.append(offset)
                    yield
        case "drop":
            for each in [each for each in rows if each.startswith(mine)]:
                del rows[each]
        case "twice":
            rows[key].append(offset)
            yield
            rows[key] = [*rows[key], offset]
        case _:
            pass


# -- the model ----------------------------------------------------------------------------------


@dataclass
class After:
    """What the records before a position have come to."""

    rows: Rows = field(default_factory=Rows)
    outputs: list[list[int]] = field(default_factory=list[list[int]])
    dead: list[int] = field(default_factory=list[int])


class Defaulting(Rows):
    """A dict that acts like a table with a default: an unchanged one makes no row."""

    def __missing__(self, key: str) -> list[int]:
        return self.setdefault(key, [])


class Model:
    """Adds the logs up."""

    def __init__(self) -> None:
        self._log: dict[tuple[str, int], list[tuple[int, str, Op]]] = {}
        self._after: dict[tuple[str, int, int], After] = {}

    def append(self, topic: str, partition: int, offset: int, key: str, op: Op) -> None:
        """A record was written."""
        self._log.setdefault((topic, partition), []).append((offset, key, op))

    def at(self, plan: Plan, partition: int, position: int) -> After:
        """What is to be there when the records before the position were processed."""
        log = self._log.get((plan.name, partition), [])
        n = sum(1 for offset, _, _ in log if offset < position)
        return self._nth(plan, partition, log[:n])

    def ops(self) -> Iterator[Op]:
        """Everything that was written."""
        return (op for log in self._log.values() for _, _, op in log)

    def _nth(self, plan: Plan, partition: int, log: list[tuple[int, str, Op]]) -> After:
        at = (plan.name, partition, len(log))
        if not log:
            return After()
        if at not in self._after:
            offset, key, op = log[-1]
            before = self._nth(plan, partition, log[:-1])
            self._after[at] = self._next(plan, before, offset, key, op)
        return self._after[at]

    def _next(self, plan: Plan, before: After, offset: int, key: str, op: Op) -> After:
        if plan.passes_over(op):
            dead = [offset] if plan.policy == "dead" else []
            return After(before.rows, before.outputs, before.dead + dead)
        rows = Defaulting(json.loads(json.dumps(before.rows)))
        mine = f"{plan.name}:"
        if op.kind != "peek":
            for _ in act(op, mine, mine + key, offset, rows):
                pass
        made = [offset, len(rows.get(mine + key, []))]
        return After(dict(rows), [*before.outputs, made], before.dead)
