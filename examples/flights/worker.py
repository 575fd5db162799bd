"""The worker of the demo: statistics of each plane, and every late arrival.

flights (source) joined with planes (a source table of the same set) and airports (a global table).
DEMO_PREFIX stands before every topic; DEMO_STATE is where the tables live, and events.jsonl: what
happened to which task and when. From that the demo tells how long a take-over took.
"""

import json
import os
import time
from pathlib import Path

import pillion.client as pillion

PREFIX = os.environ["DEMO_PREFIX"]
STATE = Path(os.environ["DEMO_STATE"])
LATE = 30  # minutes


async def main() -> None:
    flights = pillion.Set(
        "flights",
        [PREFIX + "flights"],
        [pillion.Table("plane_stats"), pillion.SourceTable("planes", PREFIX + "planes")],
    )
    airports = pillion.Global("airports", PREFIX + "airports")
    connection = pillion.connect(
        sets=[flights], globals=[airports], outputs=[PREFIX + "late-arrivals"], advertise=STATE.name
    )
    async with connection as conn:
        with pillion.Tables(conn, pillion.SqliteStores(STATE / "tables")) as tables:
            fed: dict[str, int] = {}  # the epoch in which a task's records came last
            async for event in tables:
                match event:
                    case pillion.Assigned(task):
                        note("assigned", task, role=task.role)
                    case pillion.Restore(task, batch) if batch.name == "plane_stats":
                        note("restore", task, records=len(batch), next=batch.next_offset)
                    case pillion.Restored(task) | pillion.Promoted(task):
                        note("whole", task)
                    case pillion.Records(task, batch):
                        if fed.get(task.name) != task.epoch:
                            fed[task.name] = task.epoch
                            note("records", task)
                        late = [row for row in map(parse, batch.values) if is_late(row)]
                        count(batch, tables[task]["plane_stats"], tables[task]["planes"])
                        outputs = {PREFIX + "late-arrivals": [arrival(r, tables) for r in late]}
                        await tables.commit(batch, outputs=outputs)
                    case pillion.Revoking(task) | pillion.Lost(task) | pillion.Demoted(task):
                        note("left", task)
                    case _:
                        pass


def note(event: str, task: pillion.Task, **more: object) -> None:
    if task.role != "global":
        line = {"at": time.time(), "event": event, "task": task.name, "partition": task.partition}
        EVENTS.write(json.dumps(line | more) + "\n")


def parse(value: bytes | None) -> dict[str, str]:
    assert value is not None
    return json.loads(value)


def count(batch: pillion.Batch, stats: pillion.TableView, planes: pillion.TableView) -> None:
    """Add a batch of flights to their planes. A flight without tail number has no plane to count for."""
    for tail, value in batch.items():
        if tail is None:
            continue
        flight = parse(value)
        row = json.loads(stats[tail]) if tail in stats else new_row(planes.get(tail))
        row["flights"] += 1
        if flight["arr_delay"] != "NA":
            row["air_minutes"] += int(flight["air_time"])
            row["miles"] += int(flight["distance"])
            delay = int(flight["arr_delay"])
            row["worst_delay"] = delay if row["worst_delay"] is None else max(row["worst_delay"], delay)
        stats[tail] = json.dumps(row).encode()


def new_row(plane: bytes | None) -> dict[str, object]:
    known = json.loads(plane) if plane is not None else {"model": None, "year": None}
    return {
        "flights": 0, "air_minutes": 0, "miles": 0, "worst_delay": None,
        "model": known["model"], "year": known["year"],
    }  # fmt: skip


def is_late(flight: dict[str, str]) -> bool:
    return flight["arr_delay"] != "NA" and int(flight["arr_delay"]) >= LATE


def arrival(flight: dict[str, str], tables: pillion.Tables) -> pillion.Record:
    airport = tables.lookup("airports", flight["dest"].encode())
    name = json.loads(airport)["name"] if airport is not None else None
    value = {"id": flight["id"], "dest": flight["dest"], "airport": name, "minutes": int(flight["arr_delay"])}
    return pillion.Record(flight["dest"].encode(), json.dumps(value).encode())


if __name__ == "__main__":
    STATE.mkdir(parents=True, exist_ok=True)
    EVENTS = (STATE / "events.jsonl").open("a", buffering=1)
    (STATE / "pid.new").write_text(str(os.getpid()))
    (STATE / "pid.new").rename(STATE / "pid")
    pillion.run(main)
