"""What a serialiser is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Encode: TypeAlias = Callable[[Any], bytes]
Decode: TypeAlias = Callable[[bytes], Any]


class Serde(Protocol[T]):
    """Turns values into the bytes of a key or value of Kafka, and back.

    Null (a tombstone, a record without key) never reaches a serde. A class of yours that has these
    two methods is one; it may raise SerdeError, or anything else, which counts as SerdeError.

    encode must give equal bytes for equal keys. decode(encode(value)) must equal value.

    Two attributes are read if they are there:
    mutable: bool = True (may a decoded value be changed in place? False saves the check at commit);
    name: str (for sentences).
    """

    def encode(self, value: T, /) -> bytes:
        """Give the bytes of a value. Raises SerdeError."""
        ...

    def decode(self, data: bytes, /) -> T:
        """Give the value of bytes. Raises SerdeError."""
        ...


SerdeLike: TypeAlias = type[T] | Serde[T]
"""What key= and value= take: a type that serde_of understands, or a serde."""


def mutable(serde: Serde[Any]) -> bool:
    """Say whether a value that a serde decoded may be changed in place."""
    return bool(getattr(serde, "mutable", True))


def name(serde: Serde[Any]) -> str:
    """Give the name of a serde, for sentences."""
    return str(getattr(serde, "name", type(serde).__name__))
