"""Hashes that all clients must share, in plain Python. A part of `_pure`; see there."""

from __future__ import annotations

import struct
from typing import Final

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_MURMUR_R: Final = 24
_UINT32: Final = 0xFFFFFFFF
_iter_words: Final = struct.Struct("<I").iter_unpack
_iter_units: Final = struct.Struct("<H").iter_unpack


def murmur2(key: bytes) -> int:
    """Return the hash of a key as in Java clients, as a signed 32-bit number."""
    if not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, not {type(key).__name__}")
    size = len(key)
    whole = size & ~3
    hashed = _MURMUR_SEED ^ size
    for (word,) in _iter_words(memoryview(key)[:whole]):
        word = word * _MURMUR_M & _UINT32
        hashed = (hashed * _MURMUR_M ^ (word ^ word >> _MURMUR_R) * _MURMUR_M) & _UINT32
    if size & 3:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MURMUR_M & _UINT32
    hashed = (hashed ^ hashed >> 13) * _MURMUR_M & _UINT32
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that Java's default partitioner chooses for this key."""
    hashed = murmur2(key) & 0x7FFFFFFF
    if partition_count <= 0:
        raise ValueError("a topic has partitions")
    return hashed % partition_count


def java_string_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    if not isinstance(text, str):
        raise TypeError(f"text must be str, not {type(text).__name__}")
    units = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for (unit,) in _iter_units(units):
        hashed = (hashed * 31 + unit) & _UINT32
    return hashed - (1 << 32) if hashed >> 31 else hashed
