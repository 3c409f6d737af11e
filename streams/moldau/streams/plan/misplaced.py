"""Look whether the keys of inputs lie where the app takes them to be.

A key that lies elsewhere is missed by joins, lookups and queries, without an error. So the first
records of each partition are looked at, and one of each later batch: that costs a hash a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.deferred import dataclass
from moldau.streams.plan.partitioners import NAMED, Partitioning

FIRST: Final = 100
"""How many records of each partition are looked at in its first batch."""
_SURE: Final = 8
"""How many keys must fit a partitioner before it is named: a few fit by chance."""


@dataclass(frozen=True, slots=True)
class MisplacedKey:
    """A key that lies in another partition than the partitioner of its topic chooses. `fitting` is
    the partitioner that chooses the partition of all keys that were looked at, if one does."""

    topic: str
    key: bytes
    partition: int
    wanted: int
    partitioner: str
    fitting: str | None

    @property
    def context(self) -> dict[str, object]:
        """The facts for programs."""
        return {"misplaced": self.topic}

    def __str__(self) -> str:
        how = "..." if self.fitting is None else f'"{self.fitting}" (which fits)'
        return (
            f"misplaced={self.topic}: the key {self.key.decode(errors='replace')[:40]!r} is in "
            f"partition {self.partition}, and {self.partitioner} puts it into {self.wanted}: joins "
            "and lookups by key miss such records -> say on the source how the topic is written, "
            f'partitioner={how}, or send it through .repartition("NAME")'
        )


class KeySample:
    """Looks at keys of inputs, and finds one misplaced key of each topic at most."""

    def __init__(self, placed: Mapping[str, Partitioning], counts: Mapping[str, int]) -> None:
        """`placed` are the inputs to look at; `counts` has the partition count of each topic."""
        self._placed = {name: way for name, way in placed.items() if counts.get(name, 1) > 1}
        self._counts = counts
        self._seen: set[tuple[str, int]] = set()

    def look(self, topic: str, partition: int, keys: Sequence[bytes | None]) -> MisplacedKey | None:
        """Look at a batch of a partition. Return the first misplaced key of the topic."""
        way = self._placed.get(topic)
        if way is None or not keys:
            return None
        is_first = (topic, partition) not in self._seen
        count = self._counts[topic]
        for key in keys[: FIRST if is_first else 1]:
            if key is not None:
                self._seen.add((topic, partition))
            if key is None or way.fits(key, partition, count):
                continue
            del self._placed[topic]
            return MisplacedKey(
                topic,
                key,
                partition,
                way.partition(key, count),
                way.name,
                _fitting(keys[:FIRST], partition, count),
            )
        return None


def _fitting(keys: Sequence[bytes | None], partition: int, count: int) -> str | None:
    """Return the partitioner that puts all these keys there; None if none does, or if there are too
    few keys to say so."""
    if sum(key is not None for key in keys) < _SURE:
        return None
    for name, way in NAMED.items():
        if all(way.fits(key, partition, count) for key in keys):
            return name
    return None
