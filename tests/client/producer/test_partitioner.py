"""Where records without a partition go, by every partitioner that there is."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from moldau.client.producer.partitioner import Loads, Partitioner, RoundRobin, load_partitioner
from moldau.client.producer.record import ProducerRecord
from moldau.errors import ConfigError
from moldau.link.metadata import Partition, Topic

RECORD = ProducerRecord("t", b"v")


def topic(*leaders: int) -> Topic:
    partitions = (
        Partition(index, leader, 0, (1, 2), (1, 2)) for index, leader in enumerate(leaders)
    )
    return Topic("t", b"i" * 16, tuple(partitions))


def chosen(partitioner: Partitioner, draws: int = 4000) -> Counter[int]:
    found: Counter[int] = Counter()
    for _ in range(draws):
        found[partitioner.sticky] += 1
        partitioner.filled(100)
    return found


def test_a_partition_sticks_for_so_many_bytes_in_however_many_batches() -> None:
    partitioner = Partitioner(topic(1, 1, 1, 1), 100, Random(1))
    first = partitioner.sticky
    for _ in range(9):
        partitioner.filled(11)
        assert partitioner.sticky == first
    moved = set()
    for _ in range(50):
        partitioner.filled(100)
        moved.add(partitioner.sticky)
    assert moved == {0, 1, 2, 3}


def test_where_nothing_waits_all_are_drawn_alike() -> None:
    found = chosen(Partitioner(topic(1, 1, 1, 1), 100, Random(1)))
    assert set(found) == {0, 1, 2, 3}
    assert min(found.values()) > 850


def test_the_fewer_batches_wait_the_more_often_a_partition_is_drawn() -> None:
    """Kafka's example: queues of 0, 3 and 1 batches have the weights 4, 1 and 3."""
    waiting = [0, 3, 1]
    loads = Loads(waiting.__getitem__, lambda broker: False)
    found = chosen(Partitioner(topic(1, 1, 1), 100, Random(1), loads), 8000)
    assert found[0] / 1000 == pytest.approx(4, abs=0.2)
    assert found[1] / 1000 == pytest.approx(1, abs=0.2)
    assert found[2] / 1000 == pytest.approx(3, abs=0.2)
    even = chosen(Partitioner(topic(1, 1, 1), 100, Random(1), loads, is_adaptive=False), 8000)
    assert min(even.values()) > 2400


def test_partitions_without_leader_or_with_a_stuck_one_are_passed_over() -> None:
    stuck = {2}
    loads = Loads(lambda partition: 0, stuck.__contains__)
    partitioner = Partitioner(topic(1, 2, -1, 1), 100, Random(1), loads)
    partitioner.filled(100)
    assert set(chosen(partitioner)) == {0, 3}
    stuck.add(1)
    partitioner.filled(100)
    assert set(chosen(partitioner)) == {0, 1, 3}, "where all are stuck, none is passed over"


def test_a_sticky_partition_that_loses_its_leader_is_left() -> None:
    partitioner = Partitioner(topic(1, 1), 100, Random(1))
    leaders = [1, 1]
    leaders[partitioner.sticky] = -1
    partitioner.update(topic(*leaders))
    assert leaders[partitioner.sticky] == 1


@pytest.mark.parametrize(
    "name", ["round-robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner"]
)
def test_round_robin_takes_one_after_the_other_for_each_topic(name: str) -> None:
    partitioner = load_partitioner(name)
    assert isinstance(partitioner, RoundRobin)
    other = Topic("other", b"j" * 16, topic(1, 1).partitions)
    turns = []
    for _ in range(4):
        turns.append(partitioner.partition(RECORD, b"k", b"v", topic(1, -1, 1)))
        partitioner.partition(RECORD, b"k", b"v", other)
    assert turns == [0, 2, 0, 2]
    assert [partitioner.partition(RECORD, None, None, topic(-1, -1)) for _ in range(2)] == [0, 1]


class First:
    """A partitioner of a user."""

    def partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, topic: Topic, /
    ) -> int:
        return 0


@pytest.mark.parametrize("given", [First, First(), f"{__name__}.First", f"{__name__}:First"])
def test_a_partitioner_is_an_object_a_class_or_a_dotted_name(given: object) -> None:
    assert load_partitioner(given).partition(RECORD, None, None, topic(1)) == 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nothing-like-that", "no such plugin"),
        ("no.such.module.Class", "No module named 'no'"),
        (f"{__name__}.Missing", "Missing"),
        (object(), "no method partition"),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "No module named 'org'"),
    ],
)
def test_what_is_no_partitioner_is_refused_with_the_setting(given: object, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_partitioner(given)
    assert caught.value.context["setting"] == "partitioner.class"
    assert told in f"{caught.value.reason} {caught.value.context}"
