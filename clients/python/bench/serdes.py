"""Encode and decode values, beside what the json module takes for the same dict.

Run: python clients/python/bench/serdes.py [--records N]. Every figure is the best of several
interleaved rounds; json-module is json.dumps(...).encode() and json.loads of the same fields.
"""

from __future__ import annotations

import argparse
import importlib
import json as plain
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pillion.serdes import BYTES, FLOAT, INT, STR, json

ROUNDS = 7


@dataclass(slots=True)
class Flight:
    """A small record: text, numbers, null."""

    tail: str
    origin: str
    dest: str
    distance: int
    dep_delay: float | None
    arr_delay: float | None


@dataclass(frozen=True, slots=True)
class Key:
    region: str
    user: int


@dataclass(slots=True)
class Stats:
    """A row of a table with a list and a dict."""

    flights: int
    delays: list[float]
    by_dest: dict[str, int]


Run = tuple[Callable[[Any], Any], Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=50_000)
    n: int = options.parse_args().records
    flight = Flight("N102UA", "SFO", "LAX", 337, 12.5, None)
    stats = Stats(12, [1.5] * 10, {"LAX": 3, "SFO": 4, "JFK": 5})
    runs: dict[str, Run] = {}
    rows: list[tuple[str, Any, Any]] = [
        ("str", STR, "N102UA"),
        ("bytes", BYTES, b"N102UA"),
        ("int", INT, 1234),
        ("float", FLOAT, 12.5),
        ("dataclass", json(Flight), flight),
        ("dataclass-parts", json(Stats), stats),
        ("canonical-key", json(Key, canonical=True), Key("eu", 17)),
        ("untyped", json(), asdict(flight)),
        ("json-module", _JsonModule(), asdict(flight)),
        ("json-module-parts", _JsonModule(), asdict(stats)),
        *_libraries(),
    ]
    for name, serde, value in rows:
        data: bytes = serde.encode(value)
        runs[f"{name}/encode"] = serde.encode, value
        runs[f"{name}/decode"] = serde.decode, data
    rates = measure(runs, n)
    for name, rate in rates.items():
        print(f"BENCH python/serdes/{name} {rate:.0f} records/s")
    for own, floor in (("dataclass", "json-module"), ("dataclass-parts", "json-module-parts")):
        for way in ("encode", "decode"):
            ratio = rates[f"{floor}/{way}"] / rates[f"{own}/{way}"]
            print(f"BENCH python/serdes/{own}/{way}/vs-json-module {ratio:.2f} x")


class _JsonModule:
    def encode(self, value: Any) -> bytes:
        return plain.dumps(value).encode()

    def decode(self, data: bytes) -> Any:
        return plain.loads(data)


def _libraries() -> list[tuple[str, Any, Any]]:
    """Give the same record as a model of pydantic and a struct of msgspec, if they are there."""
    found: list[tuple[str, Any, Any]] = []
    fields = list(_FIELDS.items())
    values = dict(zip(_FIELDS, ("N102UA", "SFO", "LAX", 337, 12.5, None), strict=True))
    try:
        pydantic = importlib.import_module("pydantic")
        model = pydantic.create_model("Model", **{name: (kind, ...) for name, kind in fields})
        found.append(("pydantic", json(model), model(**values)))
        msgspec = importlib.import_module("msgspec")
        struct = msgspec.defstruct("Struct", fields)
        found.append(("msgspec", json(struct), struct(**values)))
    except ImportError as error:
        print(f"# left out: {error}")
    return found


_FIELDS: dict[str, Any] = {
    "tail": str,
    "origin": str,
    "dest": str,
    "distance": int,
    "dep_delay": float | None,
    "arr_delay": float | None,
}


def measure(runs: dict[str, Run], n: int) -> dict[str, float]:
    """Give records per second of each."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for name, (call, value) in runs.items():
            values = [value] * n
            start = time.perf_counter()
            for each in values:
                call(each)
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: n / seconds for name, seconds in best.items()}


if __name__ == "__main__":
    main()
