"""The worker of the demo: statistics of each plane, and every late arrival.

flights (source) joined with planes (a source table of the same set) and airports (a global table).
PREFIX stands before every topic; STATE is where the tables live.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from pathlib import Path

import pillion

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
    connection = pillion.connect(sets=[flights], globals=[airports], outputs=[PREFIX + "late-arrivals"])
    async with connection as conn:
        with pillion.Tables(conn, pillion.SqliteStores(STATE / "tables")) as tables:
            replayed: Counter[str] = Counter()
            async for event in tables:
                match event:
                    case pillion.Restore(task, batch):
                        replayed[task.name] += len(batch)
                        if batch.name == "plane_stats":
                            hold_when_asked()
                    case pillion.Restored(task):
                        print(
                            f"{task.name} whole, {replayed.pop(task.name, 0):,} records replayed", flush=True
                        )
                    case pillion.Records(task, batch):
                        late = [row for row in map(parse, batch.values) if is_late(row)]
                        count(batch, tables[task]["plane_stats"], tables[task]["planes"])
                        outputs = {PREFIX + "late-arrivals": [arrival(r, tables) for r in late]}
                        await tables.commit(batch, outputs=outputs)
                    case _:
                        pass


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


def hold_when_asked() -> None:
    """The demo kills this process in the middle of a restore: stop here until it does."""
    ask = STATE / "hold-restore"
    if ask.exists():
        ask.rename(STATE / "held")
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    STATE.mkdir(parents=True, exist_ok=True)
    (STATE / "pid.new").write_text(str(os.getpid()))
    (STATE / "pid.new").rename(STATE / "pid")
    pillion.run(main)
