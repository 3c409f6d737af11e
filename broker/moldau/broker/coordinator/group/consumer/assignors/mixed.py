"""`uniform` for members that subscribe to different topics.

Topics with the same subscribers form one class: their partitions are interchangeable. There are
three passes:

1. Each member keeps the partitions that it may keep.
2. The other partitions go, class by class, to the least loaded subscriber. Classes with the most
   partitions for each subscriber come first, because they have the least choice.
3. Class by class, partitions move from the most to the least loaded subscriber while that makes the
   two more equal. A move in one class can allow another in the next class, so this pass repeats
   until nothing moves.

Each move lowers the sum of the squares of the loads, so the last pass ends. ROUNDS_MAX limits the
time if subscriptions overlap in long chains; the result is then valid and nearly even.

Cost: near-linear in partitions plus subscriptions, with a logarithm for the heaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, TypeAlias

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.deferred import dataclass
from moldau.ids import Uuid

ROUNDS_MAX: Final = 16

TopicPartition: TypeAlias = tuple[Uuid, int]


@dataclass(slots=True)
class _Class:
    """Topics with the same subscribers (indices of members), and each subscriber's partitions."""

    subscribers: tuple[int, ...]
    partition_count: int = 0
    held: dict[int, list[TopicPartition]] = field(default_factory=dict)
    free: list[TopicPartition] = field(default_factory=list)


def assign_mixed(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    """Assign the partitions to members with different subscriptions."""
    ids = sorted(members)
    load = [0] * len(ids)
    classes = _classes([members[member_id] for member_id in ids], partition_counts, load)
    for each in classes:
        _deal(each, load)
    for _ in range(ROUNDS_MAX):
        moves = [_even_out(each, load) for each in classes]
        if not any(moves):
            break
    return _collected(ids, classes)


def _classes(
    specs: list[MemberSpec], partition_counts: Mapping[Uuid, int], load: list[int]
) -> list[_Class]:
    subscribers: dict[Uuid, list[int]] = {}
    for index, spec in enumerate(specs):
        for topic_id in spec.topics:
            subscribers.setdefault(topic_id, []).append(index)
    classes: dict[tuple[int, ...], _Class] = {}
    for topic_id in sorted(subscribers):
        key = tuple(subscribers[topic_id])
        of_topic = classes.setdefault(key, _Class(key))
        of_topic.partition_count += partition_counts[topic_id]
        _keep(topic_id, partition_counts[topic_id], of_topic, specs, load)
    return sorted(
        classes.values(),
        key=lambda each: (-each.partition_count / len(each.subscribers), each.subscribers),
    )


def _keep(
    topic_id: Uuid, partition_count: int, of_topic: _Class, specs: list[MemberSpec], load: list[int]
) -> None:
    """Let subscribers keep their current partitions of the topic."""
    free = set(range(partition_count))
    for index in of_topic.subscribers:
        had = specs[index].assigned.get(topic_id)
        kept = sorted(had & free) if had else None
        if kept:
            free.difference_update(kept)
            load[index] += len(kept)
            of_topic.held.setdefault(index, []).extend((topic_id, each) for each in kept)
    of_topic.free.extend((topic_id, each) for each in sorted(free))


def _deal(each: _Class, load: list[int]) -> None:
    """Give each free partition to the least loaded subscriber."""
    if not each.free:
        return
    least = [(load[index], index) for index in each.subscribers]
    heapify(least)
    for partition in each.free:
        size, index = least[0]
        each.held.setdefault(index, []).append(partition)
        load[index] = size + 1
        heapreplace(least, (size + 1, index))


def _even_out(each: _Class, load: list[int]) -> int:
    """Move partitions from the most to the least loaded subscribers. Return the number of moves."""
    most = [(-load[index], index) for index, held in each.held.items() if held]
    least = [(load[index], index) for index in each.subscribers]
    if not most or -min(most)[0] - min(least)[0] <= 1:
        return 0
    heapify(most)
    heapify(least)
    moved = 0
    while most:
        negative, giver = most[0]
        if -negative != load[giver] or not each.held[giver]:
            heappop(most)  # stale: the load of the member has changed since this entry was made
            if -negative != load[giver] and each.held[giver]:
                heappush(most, (-load[giver], giver))
            continue
        size, taker = least[0]
        if size != load[taker]:
            heapreplace(least, (load[taker], taker))
            continue
        if load[giver] - size <= 1:
            break
        each.held.setdefault(taker, []).append(each.held[giver].pop())
        load[giver] -= 1
        load[taker] += 1
        moved += 1
    return moved


def _collected(ids: list[str], classes: list[_Class]) -> dict[str, Partitions]:
    gathered: list[dict[Uuid, list[int]]] = [{} for _ in ids]
    for each in classes:
        for index, held in each.held.items():
            of_member = gathered[index]
            for topic_id, partition in held:
                of_member.setdefault(topic_id, []).append(partition)
    return {
        member_id: {topic_id: frozenset(partitions) for topic_id, partitions in of_member.items()}
        for member_id, of_member in zip(ids, gathered, strict=True)
    }
