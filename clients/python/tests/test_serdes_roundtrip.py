"""Serdes: what comes back equals what was written, and nothing but SerdeError escapes."""

from __future__ import annotations

import enum
import json as plain
import struct
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion.serdes import FLOAT, INT, STR, Serde, SerdeError, json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NAMED = st.recursive(
    st.none() | st.booleans() | EXACT | st.floats(-1e9, 1e9) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blüe"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Seat(TypedDict):
    row: int
    window: NotRequired[bool]


@dataclass(frozen=True)
class Leg:
    to: str
    minutes: float | None
    via: tuple[str, ...] = ()


@dataclass
class Everything:
    text: str
    count: int
    ratio: float
    both: int | float
    flag: bool
    colour: Colour
    level: Level | None
    kind: Literal["a", 1, True, None]
    at: datetime
    on: date
    id: UUID
    leg: Leg
    legs: list[Leg]
    pair: tuple[int, str]
    tags: set[str]
    levels: frozenset[Level]
    by_name: dict[str, list[int]]
    seat: Seat
    mixed: int | str | list[int] | Leg | None
    more: Any = None
    inner: Everything | None = None
    late: int = field(default=5, kw_only=True)


@dataclass
class Plain(Everything):
    """And what canonical JSON does not take."""

    price: Decimal = Decimal(0)
    by_number: dict[int, str] = field(default_factory=dict[int, str])
    by_day: dict[date, int] = field(default_factory=dict[date, int])
    large: int = 0


ZONES = st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=ZONES)
LEGS = st.builds(Leg, TEXT, st.none() | FINITE, st.lists(TEXT, max_size=3).map(tuple))


def everything(kind: type[Any], any_json: st.SearchStrategy[Any], **more: Any) -> Any:
    def one(kind: type[Any], inner: st.SearchStrategy[Any], **more: Any) -> st.SearchStrategy[Any]:
        return st.builds(
            kind,
            text=TEXT,
            count=EXACT,
            ratio=FINITE,
            both=EXACT | st.floats(-1e9, 1e9),
            flag=st.booleans(),
            colour=st.sampled_from(Colour),
            level=st.none() | st.sampled_from(Level),
            kind=st.sampled_from(["a", 1, True, None]),
            at=MOMENTS,
            on=st.dates(),
            id=st.uuids(),
            leg=LEGS,
            legs=st.lists(LEGS, max_size=3),
            pair=st.tuples(EXACT, TEXT),
            tags=st.sets(TEXT, max_size=4),
            levels=st.frozensets(st.sampled_from(Level)),
            by_name=st.dictionaries(TEXT, st.lists(EXACT, max_size=2), max_size=3),
            seat=st.fixed_dictionaries({"row": EXACT}, optional={"window": st.booleans()}),
            mixed=st.none() | EXACT | TEXT | st.lists(EXACT, max_size=2) | LEGS,
            more=any_json,
            inner=inner,
            late=EXACT,
            **more,
        )

    return one(kind, st.none() | one(Everything, st.none()), **more)


PLAIN: Serde[Any] = json(Plain)
CANONICAL: Serde[Any] = json(Everything, canonical=True)


@settings(max_examples=60)
@given(
    everything(
        Plain,
        ANY,
        price=st.decimals(allow_nan=False, allow_infinity=False),
        by_number=st.dictionaries(st.integers(), TEXT, max_size=3),
        by_day=st.dictionaries(st.dates(), st.integers(), max_size=3),
        large=st.integers(),
    )
)
def test_everything_comes_back(value: Plain) -> None:
    data = PLAIN.encode(value)
    assert PLAIN.decode(data) == value
    assert PLAIN.encode(PLAIN.decode(data)) == data
    plain.loads(data)  # to everybody else it is JSON
    assert list(plain.loads(data))[:2] == ["text", "count"]


@settings(max_examples=60)
@given(everything(Everything, NAMED))
def test_canonical_comes_back(value: Everything) -> None:
    data = CANONICAL.encode(value)
    assert CANONICAL.decode(data) == value
    names = list(plain.loads(data))
    assert names == sorted(names)


@given(ANY)
def test_any_json_comes_back(value: Any) -> None:
    serde = json()
    data = serde.encode(value)
    assert serde.decode(data) == plain.loads(data) == value
    assert serde.encode(serde.decode(data)) == data


@given(NAMED, st.randoms())
def test_canonical_does_not_depend_on_history(value: Any, random: Any) -> None:
    def shuffled(part: Any) -> Any:
        if isinstance(part, list):
            return [shuffled(each) for each in cast("list[Any]", part)]
        if isinstance(part, dict):
            pairs = [(name, shuffled(each)) for name, each in cast("dict[str, Any]", part).items()]
            random.shuffle(pairs)
            return dict(pairs)
        return float(part) if part.__class__ is int else part

    serde = json(canonical=True)
    assert serde.encode(shuffled(value)) == serde.encode(value)


@given(ANY | st.dictionaries(st.sampled_from(list(Plain.__dataclass_fields__)), ANY))
def test_any_json_decodes_or_is_refused(value: Any) -> None:
    data = plain.dumps(value).encode()
    serdes: list[Serde[Any]] = [json(Leg), json(list[Leg | None]), json(Seat)]
    for serde in [*serdes, PLAIN, CANONICAL]:
        try:
            found = serde.decode(data)
        except SerdeError:
            continue
        assert serde.decode(serde.encode(found)) == found


@given(st.binary())
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    serdes: list[Serde[Any]] = [STR, INT, FLOAT, json(), json(canonical=True), PLAIN]
    for serde in serdes:
        try:
            found = serde.decode(data)
        except SerdeError:
            continue
        assert found != found or serde.decode(serde.encode(found)) == found


@given(st.integers(-(2**63), 2**63 - 1))
def test_int_comes_back(value: int) -> None:
    assert INT.encode(value) == struct.pack(">q", value)
    assert INT.decode(INT.encode(value)) == value


@given(st.binary(min_size=8, max_size=8))
def test_every_double_keeps_its_bits(data: bytes) -> None:
    assert FLOAT.encode(FLOAT.decode(data)) == data


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_json_float_reads_back_exactly(value: float) -> None:
    assert json(float).decode(json(float).encode(value)) == value
    assert json(float, canonical=True).decode(json(float, canonical=True).encode(value)) == value


@given(st.text())
def test_text_of_any_code_points_comes_back_or_is_refused(value: str) -> None:
    for serde in (STR, json(str), json(str, canonical=True)):
        if any(0xD800 <= ord(each) < 0xE000 for each in value):
            with pytest.raises(SerdeError, match="lone surrogate"):
                serde.encode(value)
        else:
            assert serde.decode(serde.encode(value)) == value
