"""`range`: each topic's partitions are split into consecutive ranges, one for each subscriber.

Members are in one order (static members first, by instance id; then by member id). So members that
subscribe to the same topics get the same partition numbers of topics of equal size, as joins of
co-partitioned topics need. If the partitions do not divide evenly, the first members get one more.

Static members keep their place across restarts, because their instance ids stay the same. Otherwise
this assignor is not sticky: a range moves when a member before it joins or leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.ids import Uuid


def assign_ranges(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    """Assign the partitions of each topic in ranges."""
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in sorted(members, key=lambda each: _place(each, members[each])):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id in sorted(subscribers):
        _deal(topic_id, partition_counts[topic_id], subscribers[topic_id], assigned)
    return dict(assigned)


def _place(member_id: str, spec: MemberSpec) -> tuple[bool, str]:
    if spec.instance_id is not None:
        return False, spec.instance_id
    return True, member_id


def _deal(
    topic_id: Uuid,
    partition_count: int,
    takers: list[str],
    assigned: dict[str, dict[Uuid, frozenset[int]]],
) -> None:
    size, larger = divmod(partition_count, len(takers))
    start = 0
    for index, member_id in enumerate(takers):
        end = start + size + (index < larger)
        if start == end:
            return
        assigned[member_id][topic_id] = frozenset(range(start, end))
        start = end
