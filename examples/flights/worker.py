"""The demo's worker: statistics of each plane, and every late arrival.

flights (the source) are joined with planes (a source table: the same keys, the same partitions)
and airports (a global table: every worker has all of it). DEMO_PREFIX stands before every topic;
DEMO_STATE is where the tables live.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from measure import measure
from pillion import Batch, Context, Worker

PREFIX = os.environ["DEMO_PREFIX"]
STATE = Path(os.environ["DEMO_STATE"])
LATE = 30  # minutes


@dataclass(frozen=True)
class Flight:
    """What is needed of a flight. One that was cancelled or diverted has no delay and no time."""

    id: str
    dest: str
    distance: int
    air_time: int | None
    arr_delay: int | None


@dataclass(frozen=True)
class Plane:
    model: str
    year: int | None


@dataclass(frozen=True)
class Airport:
    name: str


@dataclass(frozen=True)
class Stats:
    """What a plane has done."""

    flights: int = 0
    air_minutes: int = 0
    miles: int = 0
    worst_delay: int | None = None
    model: str | None = None
    year: int | None = None

    def add(self, flight: Flight, plane: Plane | None) -> Stats:
        model, year = (plane.model, plane.year) if plane else (None, None)
        minutes, miles, worst = self.air_minutes, self.miles, self.worst_delay
        if flight.arr_delay is not None:
            minutes += flight.air_time or 0
            miles += flight.distance
            worst = flight.arr_delay if worst is None else max(worst, flight.arr_delay)
        return Stats(self.flights + 1, minutes, miles, worst, model, year)


@dataclass(frozen=True)
class Late:
    id: str
    dest: str
    airport: str | None
    minutes: int


app = Worker(state_dir=STATE / "tables", advertise=STATE.name)
flights = app.topic(PREFIX + "flights", key=str, value=Flight)
late = app.output(PREFIX + "late-arrivals", key=str, value=Late)
planes = app.source_table("planes", key=str, value=Plane, topic=PREFIX + "planes")
airports = app.global_table("airports", key=str, value=Airport, topic=PREFIX + "airports")
stats = app.table("plane_stats", key=str, value=Stats, default=Stats)


@app.process(flights, tables=[stats, planes, airports])
def on_flights(batch: Batch[str, Flight], ctx: Context) -> None:
    rows = ctx[stats]
    for tail, flight in batch.items():
        if tail is None or flight is None:
            continue  # cancelled before it had a plane
        rows[tail] = rows[tail].add(flight, ctx[planes].get(tail))
        if flight.arr_delay is not None and flight.arr_delay >= LATE:
            airport = ctx[airports].get(flight.dest)
            name = airport.name if airport else None
            ctx.send(late, key=tail, value=Late(flight.id, flight.dest, name, flight.arr_delay))


if __name__ == "__main__":
    measure(app, STATE)
    app.run()
