"""Sets of partitions by topic, and partitions with the epochs in which a member got them.

Invariants: neither form holds a topic without partitions, so that equal sets are equal maps. The
values are never changed, only replaced.

Streams groups have tasks instead: the key is a subtopology in a role, and each partition of it is a
task. The forms with a free key (`PartitionsBy`, `OwnedBy`) are for both.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from moldau.ids import Uuid

K = TypeVar("K", bound=Hashable)

PartitionsBy: TypeAlias = Mapping[K, frozenset[int]]
OwnedBy: TypeAlias = Mapping[K, Mapping[int, int]]

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Sets of partitions, by topic id."""

Owned: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch in which it was assigned."""

NO_PARTITIONS: Final[Mapping[Any, frozenset[int]]] = MappingProxyType({})
NOTHING_OWNED: Final[Mapping[Any, Mapping[int, int]]] = MappingProxyType({})


class TopicPartitionsLike(Protocol):
    """The partitions of one topic in a request, a response or a record."""

    topic_id: Uuid
    partitions: list[int]


class EpochsLike(TopicPartitionsLike, Protocol):
    """The partitions of one topic with an epoch for each, as in record 8."""

    assignment_epochs: list[int] | None


def partitions_of(topics: Iterable[TopicPartitionsLike]) -> Partitions:
    """Return the partitions in a message. A topic that is named twice is merged."""
    found: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            known = found.get(topic.topic_id, frozenset())
            found[topic.topic_id] = known.union(topic.partitions)
    return found


def without_epochs(owned: OwnedBy[K]) -> PartitionsBy[K]:
    """Return the owned partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def in_epoch(partitions: Partitions, epoch: int) -> Owned:
    """Return the partitions as owned ones, all assigned in this epoch."""
    return {topic_id: dict.fromkeys(sorted(held), epoch) for topic_id, held in partitions.items()}


def owned_of(topics: Iterable[EpochsLike], default_epoch: int) -> Owned:
    """Return the owned partitions of a record. Logs from before Kafka 4.3 have no epoch for each
    partition. Then all of them count as assigned in the member's epoch. An absent static member has
    a negative epoch, which counts as 0."""
    owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(default_epoch, 0)] * len(topic.partitions)
        if topic.partitions:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def union(one: OwnedBy[K], other: OwnedBy[K]) -> OwnedBy[K]:
    """Return the partitions of both. If both have a partition, the epoch of `other` counts."""
    if not one or not other:
        return one or other
    merged = {topic_id: dict(partitions) for topic_id, partitions in one.items()}
    for topic_id, partitions in other.items():
        merged.setdefault(topic_id, {}).update(partitions)
    return merged


def have_in_common(partitions: PartitionsBy[K], owned: OwnedBy[K]) -> bool:
    """Whether at least one partition is in both."""
    return any(
        not held.isdisjoint(owned.get(topic_id, ())) for topic_id, held in partitions.items()
    )


def is_within(partitions: PartitionsBy[K], owned: OwnedBy[K]) -> bool:
    """Whether every partition is among the owned ones."""
    return all(held.issubset(owned.get(topic_id, ())) for topic_id, held in partitions.items())


def count(partitions: Partitions | Owned) -> int:
    """Return the number of partitions."""
    return sum(map(len, partitions.values()))
