"""Windowed keys, in Kafka Streams' layouts (big endian).

In an output topic: key + start (8) of a time window, key + end (8) + start (8) of a session. In a
changelog: key + start (8) + sequence (4), and the same as above for a session.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Generic, NamedTuple, TypeVar

from moldau.deferred import dataclass
from moldau.streams.serdes.codec import Codec

K = TypeVar("K")

FOREVER_MS = 2**63 - 1

LONG = Struct(">q")
PAIR = Struct(">qq")
START_AND_SEQUENCE = Struct(">qi")


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed result: the record's key, and the window [start, end)."""

    key: K
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TimeWindowed:
    """The type of keys in windows of one size. `size_ms` is None for windows that never end."""

    key: Any
    size_ms: int | None


@dataclass(frozen=True, slots=True)
class SessionWindowed:
    """The type of keys in sessions."""

    key: Any


def time_codec(inner: Codec, size_ms: int | None) -> Codec:
    def encode(windowed: Windowed[Any]) -> bytes:
        return inner.encode(windowed[0]) + LONG.pack(windowed[1])

    def decode(data: bytes) -> Windowed[Any]:
        start: int = LONG.unpack_from(data, len(data) - 8)[0]
        end = FOREVER_MS if size_ms is None else start + size_ms
        return Windowed(inner.decode(data[:-8]), start, end)

    return Codec(f"windowed {inner.name}", encode, decode, inner.is_hashable, inner.is_immutable)


def session_codec(inner: Codec) -> Codec:
    def encode(windowed: Windowed[Any]) -> bytes:
        return inner.encode(windowed[0]) + PAIR.pack(windowed[2], windowed[1])

    def decode(data: bytes) -> Windowed[Any]:
        end, start = PAIR.unpack_from(data, len(data) - 16)
        return Windowed(inner.decode(data[:-16]), start, end)

    return Codec(f"session {inner.name}", encode, decode, inner.is_hashable, inner.is_immutable)
