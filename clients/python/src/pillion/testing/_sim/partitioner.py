"""Which partition a key belongs to: as the Java client's default partitioner says."""

from __future__ import annotations

_MIX = 0x5BD1E995
_ALL = 0xFFFFFFFF


def partition_of(key: bytes | None, partitions: int) -> int:
    """Give the partition of a key. Without a key Kafka takes any; here it is 0."""
    return 0 if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Hash with murmur2 and Kafka's seed. The result has 32 bits, without a sign."""
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _MIX & _ALL
        part ^= part >> 24
        hashed = hashed * _MIX & _ALL ^ (part * _MIX & _ALL)
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MIX & _ALL
    hashed = (hashed ^ hashed >> 13) * _MIX & _ALL
    return hashed ^ hashed >> 15
