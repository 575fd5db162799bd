"""What a type checker must infer of declarations: pyright checks this file, strictly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_type

from pillion.serdes import STR, Serde, SerdeLike, json, serde_of

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Flight:
    tail: str
    delay: int | None = None


class Topic(Generic[K, V]):
    def __init__(self, key: Serde[K], value: Serde[V]) -> None:
        self.key, self.value = key, value


def topic(*, key: SerdeLike[K], value: SerdeLike[V]) -> Topic[K, V]:
    return Topic(serde_of(key, key=True, where="topic"), serde_of(value, key=False, where="topic"))


class Celsius:
    """A serde of a user, by shape alone."""

    def encode(self, value: float, /) -> bytes:
        return f"{value}C".encode()

    def decode(self, data: bytes, /) -> float:
        return float(data.decode().removesuffix("C"))


def test_types_are_inferred() -> None:
    assert_type(topic(key=str, value=Flight), Topic[str, Flight])
    assert_type(topic(key=bytes, value=json(Flight)), Topic[bytes, Flight])
    assert_type(topic(key=STR, value=Celsius()), Topic[str, float])
    assert_type(topic(key=int, value=list[Flight]), Topic[int, list[Flight]])
    assert_type(topic(key=json(Flight, canonical=True), value=float), Topic[Flight, float])
    assert_type(topic(key=str, value=json()), Topic[str, Any])
    assert_type(json(dict[str, Flight]), Serde[dict[str, Flight]])
    assert_type(serde_of(Flight, key=False, where="t").decode(b'{"tail":"N1"}'), Flight)
