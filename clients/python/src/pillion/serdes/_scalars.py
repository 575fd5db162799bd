"""Serdes of single values, as Kafka's own serialisers write them."""

from __future__ import annotations

import struct
from typing import Final, final

from ..errors import SerdeError

_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_pack_long, _unpack_long = _LONG.pack, _LONG.unpack
_SHOWN = 32  # bytes of what did not decode that a sentence shows


@final
class StrSerde:
    """UTF-8, strictly: no lone surrogates, no overlong forms (Kafka's StringSerializer)."""

    name: Final = "str"
    mutable: Final = False

    def encode(self, value: str, /) -> bytes:
        """See Serde."""
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _other("str", value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            bad = f"U+{ord(value[error.start]):04X} at character {error.start}"
            raise SerdeError(f"the text has a lone surrogate, {bad}") from None

    def decode(self, data: bytes, /) -> str:
        """See Serde."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SerdeError(f"{shown(data)} is no UTF-8, see its byte {error.start}") from None


@final
class BytesSerde:
    """The bytes as they are (Kafka's ByteArraySerializer)."""

    name: Final = "bytes"
    mutable: Final = False

    def encode(self, value: bytes, /) -> bytes:
        """See Serde."""
        if not isinstance(value, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _other("bytes", value)
        return value

    def decode(self, data: bytes, /) -> bytes:
        """See Serde."""
        return data


@final
class IntSerde:
    """8 bytes, big endian, two's complement (Kafka's LongSerializer)."""

    name: Final = "int"
    mutable: Final = False

    def encode(self, value: int, /) -> bytes:
        """See Serde."""
        if value.__class__ is not int and not _is_int(value):
            raise _other("int", value)
        try:
            return _pack_long(value)
        except struct.error:
            raise SerdeError(f"{_digits(value)} does not fit a Long (64 bits)") from None

    def decode(self, data: bytes, /) -> int:
        """See Serde."""
        try:
            found: int = _unpack_long(data)[0]
        except struct.error:
            raise _size("Long", data) from None
        return found


@final
class FloatSerde:
    """8 bytes, big endian, IEEE 754; the bits of a NaN are kept (Kafka's DoubleSerializer)."""

    name: Final = "float"
    mutable: Final = False

    def encode(self, value: float, /) -> bytes:
        """See Serde. An int is taken for the float that it stands for."""
        if not isinstance(value, float) and not _is_int(value):
            raise _other("float", value)
        try:
            return _DOUBLE.pack(float(value))
        except OverflowError:
            raise SerdeError(f"{_digits(value)} does not fit a Double") from None

    def decode(self, data: bytes, /) -> float:
        """See Serde."""
        if len(data) != _DOUBLE.size:
            raise _size("Double", data)
        found: float = _DOUBLE.unpack(data)[0]
        return found


STR: Final = StrSerde()
BYTES: Final = BytesSerde()
INT: Final = IntSerde()
FLOAT: Final = FloatSerde()


def shown(data: bytes) -> str:
    """Show bytes in a sentence, the first of them: text where it is text."""
    cut = data[:_SHOWN]
    text = cut.decode("ascii", "replace")
    seen = repr(text) if text.isprintable() and "\ufffd" not in text else f"hex {cut.hex()}"
    return seen if len(data) <= _SHOWN else f"{seen}… ({len(data)} bytes)"


def _is_int(value: object) -> bool:
    """Whether it is a number: a bool is not, though Python says so."""
    return isinstance(value, int) and not isinstance(value, bool)


def _other(expected: str, value: object) -> SerdeError:
    return SerdeError(f"must be {expected}, not {type(value).__name__}")


def _size(what: str, data: bytes) -> SerdeError:
    count = f"{len(data)} byte{'' if len(data) == 1 else 's'}"
    return SerdeError(f"{shown(data)} is no {what}: {count} instead of 8")


def _digits(value: float) -> str:
    """Show a large number; Python refuses to print very large ones."""
    return str(value) if abs(value) < 10**40 else "a number of more than 40 digits"
