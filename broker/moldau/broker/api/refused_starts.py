"""The first batches of producers in a partition that were refused, and that will be sent again.

A partition takes any sequence from a producer that it does not know: earlier batches may have been
deleted. If the first batch of a transaction is refused for the moment, the next one in flight must
not be taken in its place, or the first one never fits again. So the lowest sequence that was
refused is remembered until it is taken. Kafka keeps it with the state of its verification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.broker.coordinator.transaction.producers import Producer
    from moldau.broker.coordinator.transaction.state import TopicPartition

STARTS_MAX: Final = 1_000
"""Beyond it the oldest are forgotten: their clients may never come again."""


class RefusedStarts:
    """The lowest refused sequences, by partition and producer."""

    def __init__(self) -> None:
        self._lowest: dict[tuple[TopicPartition, Producer], int] = {}

    def note(self, place: TopicPartition, producer: Producer, sequence: int) -> None:
        """Note that a first batch is refused and will come again."""
        start = place, producer
        self._lowest[start] = min(sequence, self._lowest.pop(start, sequence))
        if len(self._lowest) > STARTS_MAX:
            del self._lowest[next(iter(self._lowest))]

    def is_behind_one(self, place: TopicPartition, producer: Producer, sequence: int) -> bool:
        """Whether an earlier batch is to come first. If not, forget what was noted."""
        start = place, producer
        if sequence > self._lowest.get(start, sequence):
            return True
        self._lowest.pop(start, None)
        return False
