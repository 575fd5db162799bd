"""Serdes of pydantic models and msgspec structs."""

from __future__ import annotations

import json as plain
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pydantic
import pytest

from pillion.errors import SerdeError, UsageError
from pillion.serdes import Serde, json, mutable, serde_of


class Model(pydantic.BaseModel):
    tail: str
    delay: int | None = None
    ratio: float | None = None
    at: datetime | None = None
    dest: str = pydantic.Field(default="SFO", alias="destination")

    @pydantic.computed_field
    @property
    def late(self) -> bool:
        return (self.delay or 0) >= 30


class SubModel(Model):
    more: int = 0


class FrozenModel(pydantic.BaseModel, frozen=True):
    region: str
    user: int


class OpenModel(pydantic.BaseModel, frozen=True, extra="allow"):
    region: str


class SetModel(pydantic.BaseModel, frozen=True):
    tags: frozenset[str]


class Struct(msgspec.Struct):
    tail: str
    delay: int | None = None
    ratio: float | None = None
    tags: set[str] = msgspec.field(default_factory=set[str])


class FrozenStruct(msgspec.Struct, frozen=True):
    user: int
    region: str = msgspec.field(name="reg")


class ListStruct(msgspec.Struct, frozen=True):
    items: list[int]


class AtStruct(msgspec.Struct, frozen=True):
    at: datetime


class ChainStruct(msgspec.Struct, frozen=True):
    next: ChainStruct | None = None


class OuterStruct(msgspec.Struct, frozen=True):
    inner: FrozenStruct


@dataclass
class Around:
    name: str
    models: list[FrozenModel] = field(default_factory=list[FrozenModel])


@dataclass
class AroundStruct:
    one: FrozenStruct


@dataclass
class Both:
    model: FrozenModel
    struct: FrozenStruct


def refusal(run: Callable[[], object]) -> str:
    with pytest.raises(SerdeError) as caught:
        run()
    assert caught.value.code == "serde"
    return caught.value.message


def test_a_model_comes_back() -> None:
    serde = serde_of(Model, key=False, where="t")
    at = datetime(2026, 11, 30, 16, 45, tzinfo=timezone(timedelta(hours=1)))
    value = Model(tail="é", delay=5, ratio=1.5, at=at, destination="LAX")
    data = serde.encode(value)
    assert (
        data
        == (
            '{"tail":"é","delay":5,"ratio":1.5,"at":"2026-11-30T16:45:00+01:00","destination":"LAX"}'
        ).encode()
    )
    assert serde.decode(data) == value
    assert serde.decode(b' {"tail": "N1", "zz": 1}') == Model(tail="N1")


def test_a_struct_comes_back() -> None:
    serde = serde_of(Struct, key=False, where="t")
    value = Struct("é", 5, 1.5, {"b", "a"})
    assert serde.encode(value) == '{"tail":"é","delay":5,"ratio":1.5,"tags":["a","b"]}'.encode()
    assert serde.decode(serde.encode(value)) == value
    assert serde.decode(b' {"tail": "N1", "zz": 1}') == Struct("N1")


def unfit_model() -> Model:
    value = Model(tail="N1")
    value.delay = "soon"  # type: ignore[assignment]
    return value


@pytest.mark.parametrize(
    ("serde", "value", "sentence"),
    [
        (json(Model), Model(tail="N1", ratio=float("nan")), "field 'ratio' is nan, which JSON"),
        (json(Model), SubModel(tail="N1"), "the value must be Model, not SubModel"),
        (json(Model), {"tail": "N1"}, "the value must be Model, not dict"),
        (json(Model), unfit_model(), "the value is refused by pydantic: "),
        (json(Struct), Struct("N1", ratio=float("inf")), "field 'ratio' is inf, which JSON"),
        (json(Struct), Struct("N1", "soon"), "the value is refused by msgspec: "),  # type: ignore[arg-type]
        (json(Struct), Struct("\ud800"), "the value is refused by msgspec: "),
        (json(Struct), FrozenStruct(1, "eu"), "the value must be Struct, not FrozenStruct"),
        (json(FrozenStruct, canonical=True), FrozenStruct(2**53, "eu"), "field 'user' is past 2"),
    ],
)  # fmt: skip
def test_what_does_not_encode(serde: Serde[Any], value: Any, sentence: str) -> None:
    assert refusal(lambda: serde.encode(value)).startswith(sentence)


@pytest.mark.parametrize(
    ("of", "data", "sentence"),
    [
        (Model, b"{}", "the JSON is refused by pydantic: tail: Field required"),
        (Model, b'{"tail":"N1","delay":"x"}', "the JSON is refused by pydantic: delay: Input sh"),
        (Model, b'{"tail":"N1","ratio":NaN}', '\'{"tail":"N1","ratio":NaN}\' is no JSON: NaN'),
        (Model, b"{", "the JSON is refused by pydantic: Invalid JSON"),
        (Struct, b"{}", "the JSON is refused by msgspec: Object missing required field `tail`"),
        (Struct, b'{"tail":1}', "the JSON is refused by msgspec: Expected `str`, got `int` - at"),
        (Struct, b"\xff", "the JSON is refused by msgspec: JSON is malformed"),
    ],
)
def test_what_does_not_decode(of: Any, data: bytes, sentence: str) -> None:
    assert refusal(lambda: json(of).decode(data)).startswith(sentence)


def test_text_that_reads_nan_is_text() -> None:
    assert json(Model).decode(b'{"tail":"NaN"}') == Model(tail="NaN")
    assert json(Model).decode(json(Model).encode(Model(tail="null"))) == Model(tail="null")


def test_null_that_is_meant_is_written() -> None:
    assert plain.loads(json(Model).encode(Model(tail="N1")))["ratio"] is None
    assert plain.loads(json(Struct).encode(Struct("N1")))["ratio"] is None


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (list[Model], [Model(tail="N1")]),
        (dict[str, Struct], {"a": Struct("N1", tags={"x"})}),
        (Around, Around("a", [FrozenModel(region="eu", user=1)])),
        (AroundStruct, AroundStruct(FrozenStruct(1, "eu"))),
        (ChainStruct, ChainStruct(ChainStruct())),
    ],
)
def test_what_is_made_of_them_comes_back(of: Any, value: Any) -> None:
    serde = json(of)
    assert serde.decode(serde.encode(value)) == value


def test_as_keys() -> None:
    for of, value, data in (
        (FrozenModel, FrozenModel(user=1, region="é"), '{"region":"é","user":1}'),
        (FrozenStruct, FrozenStruct(1, "é"), '{"reg":"é","user":1}'),
        (OuterStruct, OuterStruct(FrozenStruct(1, "é")), '{"inner":{"reg":"é","user":1}}'),
    ):
        serde: Serde[Any] = json(of, canonical=True)
        assert serde_of(serde, key=True, where="t") is serde
        assert serde.encode(value) == data.encode()
        assert serde.decode(data.encode()) == value
        with pytest.raises(SerdeError, match="is no canonical JSON"):
            serde.decode(data.replace(":", ": ").encode())


@pytest.mark.parametrize(
    "of", [Model, SetModel, AtStruct, Struct, ChainStruct, Around, list[FrozenModel]]
)
def test_what_is_written_in_several_ways_is_refused_as_key(of: Any) -> None:
    with pytest.raises(UsageError, match="as a key use a dataclass"):
        json(of, canonical=True)


def test_a_model_as_key_needs_canonical() -> None:
    with pytest.raises(UsageError, match=r"write key=json\(FrozenModel, canonical=True\)"):
        serde_of(FrozenModel, key=True, where="t")


def test_what_neither_library_takes_is_refused_at_declaration() -> None:
    with pytest.raises(UsageError, match="Both: it is refused by "):
        json(Both)


def test_what_may_change() -> None:
    for of in (FrozenModel, FrozenStruct, AtStruct, SetModel, OuterStruct):
        assert not mutable(json(of)), of
    for of in (Model, OpenModel, Struct, ListStruct, Around, list[FrozenModel]):
        assert mutable(json(of)), of


def test_neither_is_imported_for_others() -> None:
    program = (
        "import sys, pillion.serdes as s; s.serde_of(dict[str, int], key=False, where='t');"
        "sys.exit(bool({'pydantic', 'msgspec'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_moments_of_models_keep_their_offset() -> None:
    value = AtStruct(datetime(2026, 1, 1, tzinfo=UTC))
    assert json(AtStruct).encode(value) == b'{"at":"2026-01-01T00:00:00Z"}'
