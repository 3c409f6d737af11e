"""Where a topic's writer puts each key: a hash by its name, or a function of the writer."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from moldau.deferred import dataclass
from moldau.records import partition_for_key
from moldau.streams.plan.functions import name_of
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.windowed import LONG, PAIR, SessionWindowed, TimeWindowed

Partitioner = Literal["murmur2", "crc32"] | Callable[[bytes, int], int]
"""What a source declares: the name of a hash, or function(key, partitions) of the writer."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A partitioner with its name in plans and messages."""

    name: str
    function: Callable[[bytes, int], int]

    def partition(self, key: bytes, partitions: int) -> int:
        """Return the partition of a key. Raise TopologyError for what is none."""
        found = self.function(key, partitions)
        if type(found) is not int or not 0 <= found < partitions:
            raise TopologyError(
                f"partitioner={self.name} returned {found!r} for a topic with {partitions} "
                f"partitions; return a number from 0 to {partitions - 1}"
            )
        return found

    def fits(self, key: bytes | None, partition: int, partitions: int) -> bool:
        """Whether a record with this key may lie in this partition. Records without a key may lie
        anywhere, and librdkafka spreads empty keys as it does those."""
        if key is None or (not key and self == CRC32):
            return True
        return self.partition(key, partitions) == partition


def crc32(key: bytes, partitions: int) -> int:
    """Return the partition that librdkafka's `consistent` and `consistent_random` choose."""
    return zlib.crc32(key) % partitions


def _of_window(key: bytes, partitions: int) -> int:
    return partition_for_key(key[: -LONG.size], partitions)


def _of_session(key: bytes, partitions: int) -> int:
    return partition_for_key(key[: -PAIR.size], partitions)


MURMUR2: Final = Partitioning("murmur2", partition_for_key)
CRC32: Final = Partitioning("crc32", crc32)
NAMED: Final[Mapping[str, Partitioning]] = {each.name: each for each in (MURMUR2, CRC32)}


def result_partitioning(key_type: Any) -> Partitioning | None:
    """Return how results with keys of this type are placed, None as the producer does: windowed
    ones by the key alone, as Kafka Streams does, so that all windows of a key are in order."""
    if isinstance(key_type, TimeWindowed):
        return Partitioning("murmur2 of the key in a window", _of_window)
    if isinstance(key_type, SessionWindowed):
        return Partitioning("murmur2 of the key in a session", _of_session)
    return None


def partitioning_of(given: Any, operator: str) -> Partitioning | None:
    """Return what a source declares; None if nothing. Raise TopologyError for what is neither."""
    if given is None:
        return None
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if not callable(given):
        known = ", ".join(f'"{each}"' for each in NAMED)
        raise TopologyError(
            f"{operator}: partitioner={given!r} must be one of {known}, or a function that takes a "
            "key as bytes and the number of partitions"
        )
    return Partitioning(name_of(given), given)
