"""Range: each topic's partitions in order, cut into one piece for each member. No IO.

Partition 3 of two topics goes to the same member if both have as many partitions and readers, which
a join by key needs. If racks make a difference, partitions first go to members that have a replica
in their rack (KIP-881), topics that belong together by partition, and ranges divide the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from moldau.client.group.assignors.assignor import (
    Assignment,
    Forgetful,
    Racks,
    Subscription,
    Topics,
)
from moldau.client.group.assignors.order import by_instance, is_rack_aware, wanted_topics
from moldau.link.metadata import TopicPartition


class RangeAssignor(Forgetful):
    """Assigns one piece of each topic to each member."""

    @property
    def name(self) -> str:
        """The name in Kafka."""
        return "range"

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Assign the partitions. The first members get the remainder."""
        assignment: Assignment = {each: [] for each in members}
        ordered = by_instance(members)
        shares = [
            _Share(topic, partitions, [each for each in ordered if topic in members[each].topics])
            for topic, partitions in wanted_topics(topics, members).items()
        ]
        for share in shares:
            share.look_at_racks(members)
        if any(share.needs_racks for share in shares):
            _by_racks(shares, assignment)
        for share in shares:
            share.give_ranges(lambda *_: True, assignment)
        for partitions in assignment.values():
            partitions.sort()
        return assignment


class _Share:
    """The assignment of one topic."""

    def __init__(self, topic: str, racks: Sequence[Racks], members: list[str]) -> None:
        self.topic = topic
        self.members = members
        self.racks = racks
        self.member_racks: dict[str, str | None] = {}
        self.knows_racks = False
        self.needs_racks = False
        self.left = dict.fromkeys(range(len(racks)))
        self._given = dict.fromkeys(members, 0)
        self._each, self._extra = divmod(len(racks), len(members))

    def look_at_racks(self, members: Mapping[str, Subscription]) -> None:
        """Find out whether racks make a difference for this topic."""
        self.member_racks = {each: members[each].rack for each in self.members}
        found = frozenset(rack for rack in self.member_racks.values() if rack)
        self.knows_racks = bool(found)
        everywhere = frozenset[str]().union(*self.racks)
        self.needs_racks = is_rack_aware(found, everywhere, self.racks)

    def matches(self, member: str, partition: int) -> bool:
        """Whether the member has no rack, or one with a replica of the partition."""
        rack = self.member_racks[member]
        return not rack or (self.knows_racks and rack in self.racks[partition])

    def room(self, member: str) -> int:
        """Return how many more partitions the member may have."""
        return max(0, self._each + (self._extra > 0) - self._given[member])

    def give(self, member: str, partitions: Sequence[int], assignment: Assignment) -> None:
        """Assign these partitions to the member."""
        assignment[member] += [TopicPartition(self.topic, each) for each in partitions]
        for each in partitions:
            self.left.pop(each, None)
        self._given[member] += len(partitions)
        if self._given[member] > self._each:
            self._extra -= 1

    def give_ranges(self, may: Callable[[str, int], bool], assignment: Assignment) -> None:
        """Give each member in turn the first partitions that are left, as many as it may have."""
        for member in self.members:
            chosen = [each for each in self.left if may(member, each)][: self.room(member)]
            if chosen:
                self.give(member, chosen, assignment)


def _by_racks(shares: list[_Share], assignment: Assignment) -> None:
    together: dict[tuple[tuple[str, ...], int], list[_Share]] = {}
    for share in shares:
        count = len(share.racks) if share.knows_racks else 0
        together.setdefault((tuple(share.members), count), []).append(share)
    for (members, count), each in together.items():
        if len(each) > 1:
            _together_by_racks(members, count, each, assignment)
        elif each[0].needs_racks:
            each[0].give_ranges(each[0].matches, assignment)


def _together_by_racks(
    members: Sequence[str], count: int, shares: list[_Share], assignment: Assignment
) -> None:
    """Assign topics with the same members and partition count: one member for each number."""
    open_to = list(members)
    for partition in range(count):
        found = next(
            (
                member
                for member in open_to
                if all(each.matches(member, partition) and each.room(member) for each in shares)
            ),
            None,
        )
        if found is None:
            continue
        for each in shares:
            each.give(found, (partition,), assignment)
        if not any(each.room(found) for each in shares):
            open_to.remove(found)
