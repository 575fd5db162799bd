"""Compares what a world has come to with the model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pillion.testing._sim.kafka import Kafka, Stored
from sim_app import Model, Plan
from sim_parts import KeptStores, Wrong


class Check:
    """Looks again at what has changed since it last looked."""

    def __init__(self, kafka: Kafka, model: Model, plans: list[Plan], partitions: int) -> None:
        self.kafka = kafka
        self.model = model
        self.plans = plans
        self.partitions = partitions
        self.seen: dict[tuple[str, int], tuple[int, int]] = {}
        self.made: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
        """By task: what was written to outputs."""
        self._read = 0

    def look(self, stores: KeptStores, *, thoroughly: bool = False) -> None:
        """Compare what is in Kafka and in the stores with the model. Raises Wrong."""
        kafka = self.kafka
        self._read_outputs()
        for plan in self.plans:
            for p in range(self.partitions):
                state = (kafka.positions[plan.name, p], len(self.made[f"{plan.set}/{p}"]))
                if thoroughly or self.seen.get((plan.name, p)) != state:
                    self.seen[plan.name, p] = state
                    self._compare(plan.set, p)
        for (topic, p), store in stores.all.items():
            mark = store.checkpoint()
            if mark != store.seen or thoroughly:
                store.seen = mark
                at = 0 if mark is None else kafka.points[mark].position
                if store.rows != rows(kafka.logs[topic, p].since(0, at)):
                    raise Wrong(f"the store of {topic}/{p} is not what its log is up to {at}")

    def _read_outputs(self) -> None:
        for task, topic, record, _ in self.kafka.outputs[self._read :]:
            self._read += 1
            if topic == "complaints":
                raise Wrong(f"{task}: {(record.value or b'').decode()}")
            if topic == "out":
                made = ((record.key or b"").decode(), json.loads(record.value or b""))
            else:
                found = dict(record.headers)
                where = (found["pillion-topic"] or b"").decode()
                made = (f"dead {where}", int(found["pillion-offset"] or b""))
            self.made[task].append(made)

    def _compare(self, set_: str, p: int) -> None:
        kafka = self.kafka
        lists: dict[str, list[int]] = {}
        sums: dict[str, int] = {}
        made: dict[str, list[Any]] = {}
        for what, value in self.made[f"{set_}/{p}"]:
            made.setdefault(what, []).append(value)
        for plan in (plan for plan in self.plans if plan.set == set_):
            after = self.model.at(plan, p, kafka.positions[plan.name, p])
            lists.update(after.rows)
            if after.outputs:
                sums[plan.name] = len(after.outputs)
            self._same(f"{plan.name}/{p} out", made.get(plan.name, []), after.outputs)
            self._same(f"{plan.name}/{p} dead", made.get(f"dead {plan.name}", []), after.dead)
        if sums:
            sums["total"] = sum(sums.values())
        ticks = made.get("tick", [])
        self._same(f"{set_}/{p} ticks", ticks, [[n + 1] for n in range(len(ticks))])
        if ticks:
            sums["ticks"] = len(ticks)
        have = kafka.logs[f"g-lists-{set_}-changelog", p].rows()
        self._same(f"lists-{set_}/{p}", {k.decode(): json.loads(v) for k, v in have.items()}, lists)
        have = kafka.logs[f"g-sums-{set_}-changelog", p].rows()
        found = {key.decode(): int.from_bytes(value, "big") for key, value in have.items()}
        self._same(f"sums-{set_}/{p}", found, sums)

    def _same(self, what: str, have: object, want: object) -> None:
        if have != want:
            raise Wrong(f"{what}: {have}, not {want}")


def rows(records: Iterable[Stored]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found
