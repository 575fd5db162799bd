"""A Faust application that writes every kind of key and value into tables.

It reads the names of its own functions from the topic `steps`.
"""

# Faust is not installed where the types are checked.
# pyright: basic, reportMissingImports=false, reportGeneralTypeIssues=false, reportCallIssue=false

import os

import faust
from faust.types import StreamT

app = faust.App(os.environ.get("ZOO", "zoo"), topic_partitions=2)


class Point(faust.Record):
    x: int
    s: str


class Bare(faust.Record, include_metadata=False):
    x: int
    s: str


class Line(faust.Record):
    name: str
    points: list[Point]


steps = app.topic("steps", value_type=str)
plain = app.Table("plain")
strings = app.Table("strings", key_type=str, value_type=str)
ints = app.Table("ints", key_type=int, value_type=int)
floats = app.Table("floats", key_type=float, value_type=float)
raw = app.Table("raw", key_type=bytes, value_type=bytes)
points = app.Table("points", key_type=str, value_type=Point)
bares = app.Table("bares", key_type=str, value_type=Bare)
lines = app.Table("lines", key_type=str, value_type=Line)
by_point = app.Table("by_point", key_type=Point, value_type=int)
by_bare = app.Table("by_bare", key_type=Bare, value_type=int)
tumbling = app.Table("tumbling", default=int).tumbling(60)
hopping = app.Table("hopping", default=int).hopping(10, 5)
uneven = app.Table("uneven", default=int).hopping(10, 4)


def write_plain() -> None:
    plain["abc"] = {"a": [1, 2.5, None, True], "b": {"é": "€ 😀\x7f\n"}}
    plain["ü"] = "é"
    plain[5] = 1e20
    plain[1.5] = 1e-5
    plain[1.0] = -0.0
    plain["1"] = 9007199254740993
    plain[("a", 1)] = (1, "two")
    plain["none"] = None
    plain["gone"] = 1
    plain["back"] = 1
    plain[True] = False


def delete() -> None:
    del plain["gone"]
    del plain["back"]
    plain["back"] = 2
    plain["abc"]["a"].append("changed in place")  # Faust writes nothing for it


def write_types() -> None:
    strings["s"] = "t"
    strings['say "ü"'] = ""
    ints[5] = 6
    ints[-(2**63)] = 2**63 - 1
    floats[1.0] = 1.5
    floats[1e20] = 1e20
    floats[1e-5] = 1.5e-7
    raw[b"\x00k"] = b"\xffv"
    raw[b"empty"] = b""


def write_records() -> None:
    points["p"] = Point(x=3, s="k")
    bares["p"] = Bare(x=3, s="ü")
    lines["l"] = Line(name="l", points=[Point(x=1, s="a"), Point(x=2, s="b")])
    by_point[Point(x=3, s="k")] = 1
    by_bare[Bare(x=3, s="ü")] = 2


def count() -> None:
    for table in (tumbling, hopping, uneven):
        table["k"] += 1


def count_other() -> None:
    for table in (tumbling, hopping, uneven):
        table["ü"] += 1
        table["a", 1] += 1


def forget() -> None:
    for table in (tumbling, hopping, uneven):
        del table["k"]


@app.agent(steps)
async def on_steps(stream: StreamT[str]) -> None:
    async for step in stream:
        globals()[step]()


if __name__ == "__main__":
    app.main()
