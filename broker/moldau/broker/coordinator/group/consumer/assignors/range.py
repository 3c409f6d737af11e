"""`range`: each topic's partitions in one run after the other, a run for each subscriber.

Members stand in one order (static ones first, by instance id; then by member id), so members that
subscribe to the same topics get the same partition numbers of topics of equal size: what joins of
co-partitioned topics need. The first members have one more where it does not come out even.

Static members keep their place across restarts, because their instance ids do. Otherwise nothing
here is sticky: a run moves when a member before it comes or goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.ids import Uuid


def assign_ranges(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[Uuid, int]
) -> dict[str, Partitions]:
    """The assignor."""
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
