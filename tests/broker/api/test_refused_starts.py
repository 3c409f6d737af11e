"""The first batches of producers that are refused and will be sent again."""

from __future__ import annotations

from moldau.broker.api.refused_starts import STARTS_MAX, RefusedStarts
from moldau.broker.coordinator.transaction.producers import Producer
from moldau.broker.coordinator.transaction.state import TopicPartition

PLACE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = Producer(7, 1)


def test_batches_behind_the_lowest_refused_one_wait_for_it() -> None:
    starts = RefusedStarts()
    for sequence in (5, 3, 4):
        starts.note(PLACE, PRODUCER, sequence)

    assert starts.is_behind_one(PLACE, PRODUCER, 4)
    assert not starts.is_behind_one(OTHER, PRODUCER, 4)
    assert not starts.is_behind_one(PLACE, Producer(7, 2), 4)
    assert not starts.is_behind_one(PLACE, PRODUCER, 3)
    assert not starts.is_behind_one(PLACE, PRODUCER, 4)


def test_the_oldest_are_forgotten_beyond_the_limit() -> None:
    starts = RefusedStarts()
    for number in range(STARTS_MAX + 1):
        starts.note(PLACE, Producer(number, 0), 0)

    assert not starts.is_behind_one(PLACE, Producer(0, 0), 1)
    assert starts.is_behind_one(PLACE, Producer(1, 0), 1)
