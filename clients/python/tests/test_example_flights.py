"""The worker of the demo, as a process. `make demo` runs it on Kafka, and kills it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aio import run
from examples import command, in_both
from pillion.testing import FakeSidecar, play

Pair = tuple[bytes | None, bytes | None]


def flight(tail: str | None, dest: str, arr_delay: int | None) -> Pair:
    known = {"id": "7", "dest": dest, "distance": 100, "arr_delay": arr_delay, "hour": "5"}
    value = known | {"air_time": None if arr_delay is None else 50}
    return None if tail is None else tail.encode(), json.dumps(value).encode()


@in_both
@run
async def test_flights_planes_and_airports(tmp_path: Path, language: str) -> None:
    async with FakeSidecar() as sidecar:
        worker = await asyncio.create_subprocess_exec(
            *command(language, "flights/worker"),
            env={
                "PILLION_URL": sidecar.url,
                "DEMO_PREFIX": "p-",
                "DEMO_STATE": str(tmp_path),
                "PYTHONWARNINGS": "error",
            },
            stderr=asyncio.subprocess.PIPE,
        )
        flights = [
            flight("N1", "IAH", 29),
            flight("N1", "IAH", 30),
            flight("N1", "XXX", 31),
            flight("N1", "IAH", None),  # cancelled
            flight(None, "IAH", None),
            flight("N2", "IAH", -5),
        ]
        tables: dict[str, list[Pair]] = {
            "planes": [(b"N1", b'{"model": "A-1", "year": null, "seats": "55"}')],
            "airports": [(b"IAH", b'{"name": "Houston"}')],
        }
        played = await play(sidecar, {"p-flights": flights}, tables=tables)
        _, said = await worker.communicate()
    assert (worker.returncode, said) == (0, b"")
    stats = {tail: json.loads(row) for tail, row in played.tables["plane_stats"].items()}
    assert [list(row.values()) for row in stats.values()] == [
        [4, 150, 300, 31, "A-1", None],
        [1, 50, 100, -5, None, None],
    ]
    assert [
        (tail, json.loads(late or b"")) for tail, late in played.outputs["p-late-arrivals"]
    ] == [
        (b"N1", {"id": "7", "dest": "IAH", "airport": "Houston", "minutes": 30}),
        (b"N1", {"id": "7", "dest": "XXX", "airport": None, "minutes": 31}),
    ]
    # What the demo measures by.
    assert int((tmp_path / "pid").read_text(encoding="utf-8")) == worker.pid
    notes = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(note)["event"] for note in notes]
    assert events == ["assigned", "whole", "records", "left"]
