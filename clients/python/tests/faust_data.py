"""What real Faust workers wrote (data/README.md), and how its tables are declared here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillion import faust
from pillion.serdes import Serde

DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data/faust-changelogs.json").read_bytes()
)
Pairs = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Event:
    """A record that was read from Kafka."""

    partition: int
    timestamp: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Point:
    x: int
    s: str


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple[Point, ...]


def events(topic: str, partition: int | None = None) -> list[Event]:
    """The records of a topic, partition after partition."""
    found = [
        Event(
            each["partition"],
            each["timestamp"],
            bytes.fromhex(each["key"] or ""),
            None if each["value"] is None else bytes.fromhex(each["value"]),
        )
        for each in DATA["topics"][topic]
        if partition in (None, each["partition"])
    ]
    assert found or partition is not None
    return found


def fold(found: list[Event]) -> dict[bytes, bytes]:
    """The rows that a changelog makes, in the order of their last writes."""
    rows: dict[bytes, bytes] = {}
    for event in found:
        rows.pop(event.key, None)
        if event.value is not None:
            rows[event.key] = event.value
    return rows


def bare(value: bytes | None) -> bytes | None:
    """A value without the metadata that Faust puts at a Record's end."""
    return value and re.sub(rb',"__faust":\{"ns":"[^"]*"\}', b"", value)


def zoo(app: str) -> dict[str, tuple[Serde[Any], Serde[Any], Pairs]]:
    """How each table of faust_zoo.py is declared here, and its rows in the order of fold()."""
    o = app == "zoo-orjson"
    text, number, real = (faust.json(each, orjson=o) for each in (str, int, float))
    texts, numbers, reals = (faust.key(each, orjson=o) for each in (str, int, float))
    point = faust.json(Point, orjson=o, namespace="faust_zoo.Point")
    points = faust.key(Point, orjson=o, namespace="faust_zoo.Point")
    plain: Pairs = [
        ("abc", {"a": [1, 2.5, None, True], "b": {"é": "€ 😀\x7f\n"}}),
        ("ü", "é"),
        (5, 1e20),
        (1.5, 1e-5),
        (1.0, -0.0),
        ("1", 9007199254740993),
        (["a", 1], [1, "two"]),
        ("none", None),
        (True, False),
        ("back", 2),
    ]
    return {
        "plain": (faust.key(orjson=o), faust.json(orjson=o), plain),
        "strings": (texts, text, [("s", "t"), ('say "ü"', "")]),
        "ints": (numbers, number, [(5, 6), (-(2**63), 2**63 - 1)]),
        "floats": (reals, real, [(1.0, 1.5), (1e20, 1e20), (1e-5, 1.5e-7)]),
        "raw": (faust.raw, faust.raw, [(b"\x00k", b"\xffv"), (b"empty", b"")]),
        "points": (texts, point, [("p", Point(3, "k"))]),
        "bares": (texts, faust.json(Point, orjson=o), [("p", Point(3, "ü"))]),
        "by_point": (points, number, [(Point(3, "k"), 1)]),
        "by_bare": (faust.key(Point, orjson=o), number, [(Point(3, "ü"), 2)]),
        "tumbling": _counted(app, "tumbling", faust.TumblingWindow(60)),
        "hopping": _counted(app, "hopping", faust.HoppingWindow(10, 5)),
        "uneven": _counted(app, "uneven", faust.HoppingWindow(10, 4)),
    }


def _counted(
    app: str, table: str, window: faust.HoppingWindow
) -> tuple[Serde[Any], Serde[Any], Pairs]:
    keys = faust.windowed(str | tuple[str, int], orjson=app == "zoo-orjson")
    rows: dict[Any, Any] = {}
    count_zoo(window, lambda _, key, value: _set(rows, key, value))
    return keys, faust.json(int), list(rows.items())


def _set(rows: dict[Any, Any], key: Any, value: Any) -> None:
    rows.pop(key, None)
    if value is not None:
        rows[key] = value


def count_zoo(
    window: faust.HoppingWindow, write: Callable[[int, faust.Windowed[Any], int | None], None]
) -> None:
    """Do what faust_zoo.py does with a windowed table: write is given partition, key and value."""
    counts: dict[Any, int] = {}
    for step in sorted(DATA["topics"]["steps"], key=lambda each: each["partition"]):
        partition, now = step["partition"], step["timestamp"]
        name = json.loads(bytes.fromhex(step["value"]))
        for key in {"count": ["k"], "count_other": ["ü", ("a", 1)]}.get(name, []):
            for at in window.ranges(key, now):
                counts[at] = counts.get(at, 0) + 1
                write(partition, at, counts[at])
        if name == "forget":
            for at in window.ranges("k", now):
                del counts[at]
                write(partition, at, None)
