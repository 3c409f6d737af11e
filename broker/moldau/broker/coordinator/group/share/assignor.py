"""Kafka's `simple` assignor: spreads partitions over members, so that each partition has a reader
and each member something to read.

With fewer members than partitions each partition has one member; with more, each partition has
several. What a member had stays with it where that is even. Where all members want the same topics,
all partitions are spread together, otherwise each topic for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TypeAlias

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec, want_the_same
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.ids import Uuid

TopicIdPartition: TypeAlias = "tuple[Uuid, int]"


def assign(
    members: Mapping[str, MemberSpec], assignable: Mapping[Uuid, frozenset[int]]
) -> dict[str, Partitions]:
    """Return the partitions of each member. `assignable` has the partitions of each topic that
    members may read now."""
    if not members:
        return {}
    given: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    if want_the_same(members):
        topics: Iterable[Uuid] = next(iter(members.values())).topics
        _spread(members, list(members), _places(topics, assignable), given)
    else:
        for topic_id in sorted({each for spec in members.values() for each in spec.topics}):
            readers = [each for each, spec in members.items() if topic_id in spec.topics]
            _spread(members, readers, _places((topic_id,), assignable), given)
    return {member_id: _by_topic(places) for member_id, places in given.items()}


def _places(
    topics: Iterable[Uuid], assignable: Mapping[Uuid, frozenset[int]]
) -> list[TopicIdPartition]:
    return [
        (topic_id, partition)
        for topic_id in sorted(topics)
        for partition in sorted(assignable.get(topic_id, ()))
    ]


def _spread(
    members: Mapping[str, MemberSpec],
    readers: Sequence[str],
    places: Sequence[TopicIdPartition],
    given: dict[str, set[TopicIdPartition]],
) -> None:
    """Give these places to these readers."""
    if not places:
        return
    sharing = -(-len(readers) // len(places))
    wanted = _counts(len(readers), sharing * len(places))
    holders: dict[TopicIdPartition, int] = dict.fromkeys(places, 0)
    room = dict(zip(readers, wanted, strict=True))
    for reader in readers:
        had = members[reader].assigned
        for topic_id, partitions in sorted(had.items()):
            for partition in sorted(partitions):
                place = topic_id, partition
                if room[reader] > 0 and holders.get(place, sharing) < sharing:
                    given[reader].add(place)
                    holders[place] += 1
                    room[reader] -= 1
    _fill(readers, room, holders, sharing, given)


def _fill(
    readers: Sequence[str],
    room: dict[str, int],
    holders: dict[TopicIdPartition, int],
    sharing: int,
    given: dict[str, set[TopicIdPartition]],
) -> None:
    """Give the places with the fewest readers to the readers with room."""
    for reader in readers:
        while room[reader] > 0:
            free = [each for each in holders if each not in given[reader]]
            if not free:
                break
            place = min(free, key=lambda each: (holders[each], each))
            if holders[place] >= sharing:
                break
            given[reader].add(place)
            holders[place] += 1
            room[reader] -= 1
    unread = [place for place, count in holders.items() if count == 0]
    for number, place in enumerate(unread):
        # Rounding left a place without a reader.
        given[readers[number % len(readers)]].add(place)


def _counts(readers: int, total: int) -> list[int]:
    """Return how many places each reader gets, so that the counts differ by one at most."""
    share = total / readers
    return [ceil(share * (number + 1)) - ceil(share * number) for number in range(readers)]


def _by_topic(places: set[TopicIdPartition]) -> Partitions:
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(found[topic_id]) for topic_id in sorted(found)}
