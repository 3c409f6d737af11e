"""Which members are near which partitions, for the sticky assignors (KIP-881). No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.client.group.assignors.assignor import Racks, Subscription, Topics
from moldau.client.group.assignors.order import is_rack_aware
from moldau.link.metadata import TopicPartition


class RackView:
    """Racks of members and partitions; empty if they make no difference."""

    def __init__(self, topics: Topics, members: Mapping[str, Subscription]) -> None:
        readers: dict[str, int] = {}
        for each in members.values():
            if each.rack:
                readers[each.rack] = readers.get(each.rack, 0) + 1
        racks: dict[TopicPartition, Racks] = {}
        if readers:
            racks = {
                TopicPartition(topic, index): found
                for topic, partitions in topics.items()
                for index, found in enumerate(partitions)
            }
        everywhere = frozenset[str]().union(*racks.values())
        self._readers = {
            where: sum(readers.get(rack, 0) for rack in found) for where, found in racks.items()
        }
        self.members: dict[str, str] = {}
        self.partitions: dict[TopicPartition, Racks] = {}
        if is_rack_aware(frozenset(readers), everywhere, racks.values()):
            self.members = {name: each.rack for name, each in members.items() if each.rack}
            self.partitions = racks

    def is_far(self, member: str, where: TopicPartition) -> bool:
        """Whether the member has a rack, and that rack has no replica of the partition."""
        rack = self.members.get(member)
        return rack is not None and rack not in self.partitions.get(where, ())

    def scarce_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort the partitions by the number of members near them, the fewest first."""
        if not self._readers:
            return partitions
        return sorted(partitions, key=lambda where: self._readers.get(where, 0))

    def next_near(self, where: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the index of the next near member, from `first` on and around; -1 for none."""
        racks = self.partitions.get(where)
        if not racks:
            return -1
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self.members.get(members[index]) in racks:
                return index
        return -1
