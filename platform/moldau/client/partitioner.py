"""Which partition a record goes to: by its key as all of Kafka's clients do, else where the last
ones went until a batch is full (KIP-794). No IO.

Records without a key stick to one partition for `batch.size` bytes, so that batches get full, and
then go to another one, drawn evenly from those that have a leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.metadata import Topic
from moldau.records import partition_for_key

if TYPE_CHECKING:
    from random import Random


class Partitioner:
    """The choice for one topic."""

    __slots__ = ("_left_bytes", "_random", "_stick_bytes", "available", "count", "sticky")

    def __init__(self, topic: Topic, stick_bytes: int, random: Random) -> None:
        self._random = random
        self._stick_bytes = stick_bytes
        self._left_bytes = stick_bytes
        self.count = 0
        self.available: Sequence[int] = ()
        self.sticky = 0
        self.update(topic)

    def update(self, topic: Topic) -> None:
        """The topic's partitions or their leaders have changed."""
        self.count = len(topic.partitions)
        available = [each.index for each in topic.partitions if each.leader >= 0]
        self.available = available or range(self.count)
        if self.sticky not in self.available:
            self._move()

    def of_key(self, key: bytes) -> int:
        """The partition of all records with this key."""
        return partition_for_key(key, self.count)

    def filled(self, size_bytes: int) -> None:
        """So many bytes went to the sticky partition."""
        self._left_bytes -= size_bytes
        if self._left_bytes <= 0:
            self._move()

    def _move(self) -> None:
        self._left_bytes = self._stick_bytes
        others = [each for each in self.available if each != self.sticky]
        self.sticky = self._random.choice(others) if others else self.available[0]
