"""Codecs with the bytes of Java's `Serdes`: for what Kafka Streams has written."""

from __future__ import annotations

from typing import Any, Final

from moldau.client.serdes.contract import Place
from moldau.client.serdes.plain import (
    BooleanDeserializer,
    BooleanSerializer,
    NumberDeserializer,
    NumberSerializer,
    UuidDeserializer,
    UuidSerializer,
)
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import BYTES, TEXT

_NUMBERS: Final = {"short": "short", "integer": "int", "long": "long", "float": "float",
                   "double": "double"}  # fmt: skip
_NAMES: Final = ("string", "bytes", *_NUMBERS, "boolean", "uuid")
_NOWHERE: Final = Place("", is_key=False)


def serde(name: str) -> Codec:
    """Return the codec with the bytes of Java's serde of this name, for `key`, `value` or `type`:
    string, bytes, short, integer, long, float, double, boolean or uuid."""
    if name == "string":
        return TEXT
    if name == "bytes":
        return BYTES
    if name == "boolean":
        return _codec(name, BooleanSerializer(), BooleanDeserializer(), bool)
    if name == "uuid":
        return _codec(name, UuidSerializer(), UuidDeserializer(), None)
    if name not in _NUMBERS:
        raise TopologyError(f"serde({name!r:.80}): known are {', '.join(_NAMES)}")
    kind = float if name in ("float", "double") else int
    number = _NUMBERS[name]
    return _codec(name, NumberSerializer(number), NumberDeserializer(number), kind)


def _codec(name: str, serializer: Any, deserializer: Any, kind: type | None) -> Codec:
    return Codec(
        name,
        lambda value: serializer(value, _NOWHERE),
        lambda data: deserializer(data, _NOWHERE),
        is_hashable=kind in (int, None),
        is_immutable=True,
        kind=kind,
    )
