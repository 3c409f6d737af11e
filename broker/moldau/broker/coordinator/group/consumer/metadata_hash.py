"""A hash that changes when topics of a group change (KIP-1101). Record 3 stores it.

It equals Kafka's bit by bit: XXH3-64 over a fixed form of each topic, and over these hashes in the
order of the topics' names. So a log may move from Kafka to this broker and back without a needless
rebalance.

A topic's form: a version byte, id, name, partition count, and for each partition the sorted racks
of its replicas. So rack-aware assignors notice changed racks too. Numbers are little-endian. Text
is UTF-16, followed by its length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import xxhash

from moldau.broker.coordinator.group.contract import Cluster, TopicFacts

_FORM_VERSION: Final = b"\x00"
_NO_TOPICS: Final = 0
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_UNSIGNED_LONG: Final = struct.Struct("<Q")


class MetadataHashes:
    """Hashes of one group's topics. Each is computed once as long as the topic stays the same."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicFacts, int]] = {}

    def of(self, names: Iterable[str], cluster: Cluster) -> int:
        """Return the hash of the given topics that exist."""
        known = self._known
        self._known = {}
        hashes = []
        for name in sorted(names):
            topic = cluster.by_name(name)
            if topic is not None:
                before = known.get(name)
                number = before[1] if before and before[0] == topic else topic_hash(topic)
                self._known[name] = topic, number
                hashes.append(_LONG.pack(number))
        return _signed(b"".join(hashes)) if hashes else _NO_TOPICS


def topic_hash(topic: TopicFacts) -> int:
    """Return the hash of one topic."""
    parts = [
        _FORM_VERSION,
        topic.topic_id[7::-1],
        topic.topic_id[:7:-1],
        _text(topic.name),
        _INT.pack(topic.partition_count),
    ]
    for partition, racks in enumerate(topic.racks):
        parts.append(_INT.pack(partition))
        for rack in sorted(racks):
            parts.append(_INT.pack(_units(rack)))
            parts.append(_text(rack))
    return _signed(b"".join(parts))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return encoded + _INT.pack(len(encoded) // 2)


def _signed(data: bytes) -> int:
    number: int = _LONG.unpack(_UNSIGNED_LONG.pack(xxhash.xxh3_64_intdigest(data)))[0]
    return number
