"""Serialisers of keys and values. spec/serdes/ says and tests what their bytes are.

    str, bytes           UTF-8; the bytes as they are
    int, float           Kafka's Long and Double, 8 bytes
    json(T)              compact UTF-8, fields in declared order: dataclass, pydantic, msgspec, ...
    json(T, canonical=True)   the same value has the same bytes in every language: for keys
    a Serde              any object with encode and decode

A declaration takes a type or a serde (SerdeLike); serde_of finds what is meant. Null never reaches
a serde.

    _of -> _scalars
        -> _json -> _build (a Kind for each part of a type) -> _kind, _typeddict, _any (no type)
                                                            -> _codegen (what must be fast)
                 -> _foreign (types of pydantic and msgspec)
                 -> _text (strings, numbers, the parser; Wrong, the error with a path)
                 -> _mutable (may a value be changed in place?)
"""

from ..errors import SerdeError
from ._base import Serde, SerdeLike, mutable, name
from ._json import json
from ._of import serde_of
from ._scalars import BYTES, FLOAT, INT, STR

__all__ = [
    "BYTES",
    "FLOAT",
    "INT",
    "STR",
    "Serde",
    "SerdeError",
    "SerdeLike",
    "json",
    "mutable",
    "name",
    "serde_of",
]
