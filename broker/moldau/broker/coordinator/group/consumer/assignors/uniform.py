"""`uniform`: all members have the same number of partitions, plus or minus one, and keep theirs.

Balance comes before stickiness, stickiness before everything else. If all members subscribe to the
same topics (almost every group), one pass is enough: each member has a quota and keeps up to that
many partitions. The others are dealt out in turn, so that a topic's partitions spread over members.
The members that already have the most partitions get the quotas that are one larger, so that the
fewest partitions move.

Members with different subscriptions: see `mixed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec, want_the_same
from moldau.broker.coordinator.group.consumer.assignors.mixed import assign_mixed
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.ids import Uuid

Free = set[int]


def assign_uniformly(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    """Assign the partitions evenly."""
    if not members:
        return {}
    if not want_the_same(members):
        return assign_mixed(members, partition_counts)
    topics = sorted(next(iter(members.values())).topics)
    free = {topic_id: set(range(partition_counts[topic_id])) for topic_id in topics}
    return _assign_same(members, free)


def _assign_same(
    members: Mapping[str, MemberSpec], free: dict[Uuid, Free]
) -> dict[str, Partitions]:
    quota, larger = divmod(sum(map(len, free.values())), len(members))
    held = {member_id: _held(spec, free) for member_id, spec in members.items()}
    order = sorted(members, key=lambda each: (-_size(held[each]), each))
    assigned: dict[str, Partitions] = {}
    wants: deque[tuple[str, int]] = deque()
    for index, member_id in enumerate(order):
        room = quota + (index < larger)
        kept = _keep(held[member_id], room, free)
        assigned[member_id] = kept
        missing = room - _size(kept)
        if missing:
            wants.append((member_id, missing))
    _deal(free, wants, assigned)
    return {member_id: assigned[member_id] for member_id in members}


def _size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def _held(spec: MemberSpec, free: Mapping[Uuid, Free]) -> Partitions:
    """Return the member's partitions that still exist; the same object if all of them do."""
    for topic_id, partitions in spec.assigned.items():
        if not partitions <= free.get(topic_id, frozenset()):
            break
    else:
        return spec.assigned
    held = {
        topic_id: partitions & free.get(topic_id, frozenset())
        for topic_id, partitions in spec.assigned.items()
    }
    return {topic_id: partitions for topic_id, partitions in held.items() if partitions}


def _keep(held: Partitions, room: int, free: dict[Uuid, Free]) -> Partitions:
    """Take the first `room` free partitions of `held`, and remove them from `free`."""
    if _size(held) <= room and all(held[topic_id] <= free[topic_id] for topic_id in held):
        for topic_id, partitions in held.items():
            free[topic_id] -= partitions
        return held
    kept = {}
    for topic_id in sorted(held):
        taken = frozenset(islice(sorted(held[topic_id] & free[topic_id]), room))
        if taken:
            kept[topic_id] = taken
            free[topic_id] -= taken
            room -= len(taken)
    return kept


def _deal(
    free: Mapping[Uuid, Free],
    wants: deque[tuple[str, int]],
    assigned: dict[str, Partitions],
) -> None:
    """Deal the free partitions in turn to the members with room, until none is left."""
    gained: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id, _ in wants}
    for topic_id, partitions in free.items():
        for partition in sorted(partitions):
            member_id, missing = wants.popleft()
            gained[member_id].setdefault(topic_id, []).append(partition)
            if missing > 1:
                wants.append((member_id, missing - 1))
    assert not wants, "the quotas add up to the partitions"
    for member_id, more in gained.items():
        merged = dict(assigned[member_id])
        for topic_id, dealt in more.items():
            merged[topic_id] = merged.get(topic_id, frozenset()).union(dealt)
        assigned[member_id] = merged
