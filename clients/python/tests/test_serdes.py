"""Serdes: what is refused and in which words, what may change, what a declaration takes."""

from __future__ import annotations

import enum
import json as stdlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID

import pytest

from pillion.errors import PillionError, SerdeError, UsageError
from pillion.serdes import BYTES, FLOAT, INT, STR, Serde, json, mutable, name, serde_of

T = TypeVar("T")
Tail = NewType("Tail", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Sizes(enum.Flag):
    SMALL = 1


class Odd(enum.Enum):
    HALF = 0.5


@dataclass
class Leg:
    to: str
    minutes: int = 0


@dataclass
class Flight:
    tail: Tail
    arr_delay: int | None
    ratio: float = 1.0
    legs: list[Leg] = field(default_factory=list[Leg])
    by: dict[str, Colour] = field(default_factory=dict[str, Colour])


@dataclass(frozen=True)
class Key:
    region: str
    user: int


@dataclass(frozen=True)
class Tree:
    key: Key
    below: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class FrozenAround:
    tags: list[str]


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is below 0")


@dataclass
class Derived:
    n: int
    twice: int = field(init=False, default=0)


@dataclass
class WithInitVar:
    n: int
    seed: InitVar[int] = 0


@dataclass
class Sub(Leg):
    more: int = 0


@dataclass
class Box(Generic[T]):
    item: T


class Point(NamedTuple):
    x: int
    y: int


class Seat(TypedDict):
    row: int


@dataclass
class Lost:
    other: Nowhere  # type: ignore[name-defined]  # noqa: F821


def refusal(run: Callable[[], object]) -> str:
    with pytest.raises(SerdeError) as caught:
        run()
    error = caught.value
    assert (error.code, error.retriable) == ("serde", False)
    assert isinstance(error, PillionError)
    assert str(error) == f"{error.message} (serde)"
    return error.message


@pytest.mark.parametrize(
    ("serde", "data", "sentence"),
    [
        (INT, b"ab", "'ab' is no Long: 2 bytes instead of 8"),
        (INT, b"\x00", "hex 00 is no Long: 1 byte instead of 8"),
        (INT, b"x" * 40, f"'{'x' * 32}'… (40 bytes) is no Long: 40 bytes instead of 8"),
        (FLOAT, b"1.5", "'1.5' is no Double: 3 bytes instead of 8"),
        (STR, b"ab\xff", "hex 6162ff is no UTF-8, see its byte 2"),
        (json(), b"{", "'{' is no JSON: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        (json(), b"[NaN]", "'[NaN]' is no JSON: NaN is not JSON"),
        (json(), b"1e999", "'1e999' is no JSON: 1e999 does not fit a Double"),
        (json(), b'"\\ud800"', "the JSON has a lone surrogate in a str"),
        (json(), b"[" * 100_000, "the JSON is nested too deeply"),
        (json(Tree), b'{"key":{"region":"","user":0},"below":[' * 5000
         + b'{"key":{"region":"","user":0}}' + b"]}" * 5000, "the JSON is nested too deeply"),
        (json(Flight), b"[]", "the JSON must be Flight, not list"),
        (json(Flight), b"{}", "field 'tail' is missing"),
        (json(Flight), b'{"tail":1}', "field 'tail' must be str, not int"),
        (json(Flight), b'{"tail":"N1","arr_delay":"x"}',
         "field 'arr_delay' must be int or null, not str"),
        (json(Flight), b'{"tail":"N1","arr_delay":true}',
         "field 'arr_delay' must be int or null, not bool"),
        (json(Flight), b'{"tail":"N1","arr_delay":1,"ratio":1e999}',
         "field 'ratio' does not fit a Double"),
        (json(Flight), b'{"tail":"N1","arr_delay":1,"ratio":1' + b"0" * 400 + b"}",
         "field 'ratio' does not fit a Double"),
        (json(Flight), b'{"tail":"N1","arr_delay":1,"legs":[{"to":"A"},{"to":null}]}',
         "field 'legs[1].to' must be str, not null"),
        (json(Flight), b'{"tail":"N1","arr_delay":1,"legs":[{"to":"A"},{}]}',
         "field 'legs[1].to' is missing"),
        (json(Flight), b'{"tail":"N1","arr_delay":1,"by":{"x":"green"}}',
         "field 'by.x' must be one of \"red\", \"blue\""),
        (json(list[int]), b"[1,2,null]", "field '[2]' must be int, not null"),
        (json(tuple[int, str]), b"[1]", "the JSON must have 2 items, not 1"),
        (json(dict[int, str]), b'{"01":"x"}', "field '01' is a name that is no int"),
        (json(int | str), b"[]", "the JSON must be int or str, not list"),
        (json(Positive), b'{"n":-1}', "the JSON is refused by Positive: ValueError: n is below 0"),
        (json(datetime), b'"2026-11-30 16:45"', "the JSON is no datetime: '2026-11-30 16:45' "
         "is not like 2026-11-30T16:45:00Z"),
        (json(date), b'"2026-02-30"', "the JSON is no date: '2026-02-30': "
         "day is out of range for month"),
        (json(UUID), b"1", "the JSON must be UUID (0b5a4f9c-26f5-4f0a-9b39-0e3c3c6c9f1d), not int"),
        (json(Seat), b"{}", "field 'row' is missing"),
        (json(Key, canonical=True), b'{"user":1,"region":"eu"}',
         '\'{"user":1,"region":"eu"}\' is no canonical JSON: that is \'{"region":"eu","user":1}\''),
        (json(Key, canonical=True), b'{"region":"eu","user":1,"x":2}',
         '\'{"region":"eu","user":1,"x":2}\' is no canonical JSON: '
         'that is \'{"region":"eu","user":1}\''),
    ],
)  # fmt: skip
def test_what_does_not_decode(serde: Serde[Any], data: bytes, sentence: str) -> None:
    assert refusal(lambda: serde.decode(data)) == sentence


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("serde", "value", "sentence"),
    [
        (STR, 5, "must be str, not int"),
        (STR, "a\udc80", "the text has a lone surrogate, U+DC80 at character 1"),
        (BYTES, bytearray(b"x"), "must be bytes, not bytearray"),
        (INT, True, "must be int, not bool"),
        (INT, 1.0, "must be int, not float"),
        (INT, 2**63, "9223372036854775808 does not fit a Long (64 bits)"),
        pytest.param(INT, 10**5000, "a number of more than 40 digits does not fit a Long (64 bits)",
                     id="large int"),
        (FLOAT, True, "must be float, not bool"),
        (FLOAT, "1", "must be float, not str"),
        (FLOAT, 10**400, "a number of more than 40 digits does not fit a Double"),
        (json(), (1, 2), "the value must be null, bool, int, float, str, list or dict, not tuple"),
        (json(), {"a": {1: 2}}, "field 'a' has a key that is int, not str"),
        (json(canonical=True), {"a": {1: 2}}, "field 'a' has a key that is int, not str"),
        (json(), {"a": [1, {2}]}, "field 'a[1]' must be null, bool, int, float, str, list or "
         "dict, not set"),
        (json(), [float("nan")], "field '[0]' is nan, which JSON does not have"),
        (json(), {"a": float("inf")}, "field 'a' is inf, which JSON does not have"),
        (json(), ["\ud800"], "the value has a lone surrogate in a str"),
        (json(), LOOP, "the value is nested too deeply"),
        pytest.param(json(), 10**5000, "the value is an int of too many digits", id="large json"),
        (json(int), True, "the value must be int, not bool"),
        (json(bool), 1, "the value must be bool, not int"),
        (json(str), b"x", "the value must be str, not bytes"),
        (json(float), float("-inf"), "the value is -inf, which JSON does not have"),
        (json(Leg), {"to": "A"}, "the value must be Leg, not dict"),
        (json(Leg), Sub("A"), "the value must be Leg, not Sub"),
        (json(Leg), Leg(5), "field 'to' must be str, not int"),  # type: ignore[arg-type]
        (json(Flight), Flight(Tail("N1"), 1, legs=[Leg("A", None)]),  # type: ignore[arg-type]
         "field 'legs[0].minutes' must be int, not null"),
        (json(Flight), Flight(Tail("N1"), 1, by={"x": "red"}),  # type: ignore[dict-item]
         "field 'by.x' must be one of \"red\", \"blue\" (Colour)"),
        (json(dict[str, int]), {1: 1}, "the value has a key that is int, not str"),
        (json(list[int]), (1,), "the value must be list[int], not tuple"),
        (json(tuple[int, int]), (1, 2, 3), "the value must have 2 items, not 3"),
        (json(datetime), datetime(2026, 1, 1),
         "the value has no time zone, so that it names no moment"),
        (json(date), datetime(2026, 1, 1, tzinfo=UTC), "the value must be date, not datetime"),
        (json(Decimal), Decimal("NaN"), "the value is NaN, which is no number"),
        (json(Seat), {"row": 1, "x": 2}, "field 'x' is no field of Seat"),
        (json(int, canonical=True), 2**53,
         "the value is past 2^53-1, which not every language reads exactly: use str"),
    ],
)  # fmt: skip
def test_what_does_not_encode(serde: Serde[Any], value: Any, sentence: str) -> None:
    assert refusal(lambda: serde.encode(value)) == sentence


def test_the_error_of_a_class_is_the_cause() -> None:
    with pytest.raises(SerdeError) as caught:
        json(Positive).decode(b'{"n":-1}')
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_field_that_is_not_set_is_named() -> None:
    leg = Leg("A")
    del leg.to
    assert refusal(lambda: json(Leg).encode(leg)) == "field 'to' is not set"


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (bytes, "bytes: it is bytes, which json does not take: JSON has no bytes; use str, or a "
         "Serde of your own"),
        (time, "time: it is time, which json does not take: write str"),
        (timedelta, "timedelta: it is timedelta, which json does not take: write float (seconds)"),
        (list[bytes], "list[bytes]: field '[]' is bytes, which json does not take: JSON has no "
         "bytes; use str, or a Serde of your own"),
        (Sequence[int], "write list[X] or tuple[X, ...]"),
        (set, "set: it is set, which json does not take: write set[X]"),
        (Point, "Point: it is Point, which json does not take"),
        (Sizes, "Sizes: it is Sizes, a Flag or an Enum without members; use int or str"),
        (Odd, "Odd: it is Odd, an Enum of other values than str and int"),
        (Literal[b"x"], "a Literal of bytes: use str, int, bool or None"),
        (str | UUID, "it is a union of str and UUID, which JSON cannot tell apart"),
        (Leg | Key, "it is a union of Leg and Key, which JSON cannot tell apart"),
        (int | None, "it may be None, which is null already, without JSON: leave it out"),
        (set[list[int]], "items of a set must be single values; use list"),
        (dict[bytes, int], "field '{}' is bytes"),
        (dict[bool, int], "it is a dict with keys of bool: JSON has names, so str, int, "),
        (Derived, "Derived: field 'twice' is init=False in Derived: it could not be read"),
        (WithInitVar, "WithInitVar: field 'seed' is an InitVar of WithInitVar: it could not be"),
        (Box[int], "which json does not take"),
        (Box, "Box: field 'item' is ~T, which json does not take"),
        (Lost, "Lost: it is Lost, whose types cannot be told: name 'Nowhere' is not defined; "
         "classes that it names must be known to its module"),
        ("Leg", "which json does not take"),
        (object(), "which json does not take"),
    ],
)  # fmt: skip
def test_types_that_are_refused(of: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        json(of)
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (Decimal, "Decimal: it is Decimal, which has no canonical form: 1.0 equals 1.00; use str"),
        (dict[int, str], "it is a dict with keys of int: JSON has names, so str"),
    ],
)
def test_types_that_are_refused_as_keys(of: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        json(of, canonical=True)
    assert caught.value.message.endswith(sentence)


class Celsius:
    mutable = False
    name = "celsius"

    def encode(self, value: float, /) -> bytes:
        return struct.pack(">f", value)

    def decode(self, data: bytes, /) -> float:
        found: float = struct.unpack(">f", data)[0]
        return found


@dataclass
class Nameless:
    """Without a hash, too."""

    def encode(self, value: list[int], /) -> bytes:
        return bytes(value)

    def decode(self, data: bytes, /) -> list[int]:
        return list(data)


def test_a_declaration_takes_types_and_serdes() -> None:
    for key in (True, False):
        assert serde_of(str, key=key, where="t") is STR
        assert serde_of(bytes, key=key, where="t") is BYTES
        assert serde_of(int, key=key, where="t") is INT
        assert serde_of(float, key=key, where="t") is FLOAT
        tail: Any = Tail  # a function to a type checker
        assert serde_of(tail, key=key, where="t") is STR
        for own in (Celsius(), Nameless()):
            same: Any = serde_of(own, key=key, where="t")  # type: ignore[arg-type]
            assert same is own
        canonical = json(Key, canonical=True)
        assert serde_of(canonical, key=key, where="t") is canonical
    legs = serde_of(list[Leg], key=False, where="t")
    assert legs.decode(b'[{"to":"A"}]') == [Leg("A")]
    assert serde_of(Seat, key=False, where="t").encode({"row": 1}) == b'{"row":1}'
    bare: Any = dict
    assert serde_of(bare, key=False, where="t").encode({"a": [None]}) == b'{"a":[null]}'


@pytest.mark.parametrize(
    ("what", "key", "sentence"),
    [
        (bool, False, "bool may be meant in several ways: write value=json(bool), or give a Serde"),
        (bool, True, "bool may be meant in several ways: write key=json(bool, canonical=True), "
         "or give a Serde"),
        (Colour, False, "Colour may be meant in several ways: write value=json(Colour), or give a "
         "Serde"),
        (Key, True, "Key is JSON, and keys need one form of it: write "
         "key=json(Key, canonical=True)"),
        (json(Key), True, "keys need one form of JSON: write key=json(Key, canonical=True)"),
        (json(), True, "keys need one form of JSON: write key=json(canonical=True)"),
        (Celsius, False, "Celsius is a class: give an instance, Celsius()"),
        (bytearray, False, "bytearray: it is bytearray, which json does not take: make it a "
         "dataclass, or give a Serde of your own"),
        (json, False, "json is a function: write json(), or json(T) for a type"),
        (stdlib, True, "this is Python's json module: write from pillion.serdes import json"),
        (5, False, "5 is no type and no Serde: a Serde has the methods encode and decode"),
        (None, True, "None is no type and no Serde: a Serde has the methods encode and decode"),
        (list[bytes], False, "list[bytes]: field '[]' is bytes, which json does not take: JSON has "
         "no bytes; use str, or a Serde of your own"),
    ],
)  # fmt: skip
def test_what_a_declaration_refuses(what: Any, key: bool, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        serde_of(what, key=key, where="the key of topic 'flights'")
    assert caught.value.message == f"the key of topic 'flights': {sentence}"


@pytest.mark.parametrize(
    "of",
    [int, str, bool, float, date, datetime, UUID, Decimal, Colour, Literal["a"], int | str, Key,
     Tree, tuple[Key, ...], tuple[int, Tail], frozenset[str], Annotated[int, "seconds"]],
)  # fmt: skip
def test_what_cannot_change(of: Any) -> None:
    assert not mutable(json(of))


@pytest.mark.parametrize(
    "of",
    [Any, list[int], dict[str, int], set[int], Leg, FrozenAround, Seat, tuple[list[int]], Flight],
)  # fmt: skip
def test_what_may_change(of: Any) -> None:
    assert mutable(json(of))


def test_serdes_say_whether_values_may_change_and_their_names() -> None:
    for serde in (STR, BYTES, INT, FLOAT):
        assert not mutable(serde)
    assert not mutable(Celsius())
    assert mutable(Nameless())
    names = [name(each) for each in (STR, INT, json(), json(Key), Celsius(), Nameless())]
    assert names == ["str", "int", "json", "Key", "celsius", "Nameless"]


def test_subclasses_of_single_values_are_written_as_what_they_equal() -> None:
    class Grade(enum.IntEnum):
        A = 1

    class Word(str):
        __slots__ = ()

    assert STR.encode(Word("x")) == b"x"
    assert INT.encode(Grade.A) == INT.encode(1)
    assert FLOAT.encode(3) == FLOAT.encode(3.0)
    assert json(Leg).encode(Leg(Word("x"), Grade.A)) == b'{"to":"x","minutes":1}'
    assert json().encode({Word("x"): [Grade.A]}) == b'{"x":[1]}'


def test_a_default_is_made_for_each_value() -> None:
    serde = json(Flight)
    one, two = (serde.decode(b'{"tail":"N1","arr_delay":null}') for _ in range(2))
    one.legs.append(Leg("A"))
    assert two.legs == []


def test_a_field_may_have_any_name() -> None:
    names = ["found", "at", "value", "kind", "error", "x", "v0", "größe", "Wrong", "quote"]
    kind: Any = type("Names", (), {"__annotations__": dict.fromkeys(names, int)})
    kind = dataclass(kind)
    value = kind(*range(len(names)))
    assert json(kind).decode(json(kind).encode(value)) == value
