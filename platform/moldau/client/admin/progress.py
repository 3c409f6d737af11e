"""The progress of groups: committed offsets, the ends of the logs, and the members that read them.

Invariant: a partition whose end is unknown (its topic is deleted, it has no leader) does not affect
the others: it is in the result, without an end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moldau.client.admin.groups import Groups
from moldau.client.admin.requests import Requests
from moldau.client.admin.topics import Topics
from moldau.client.base import arguments
from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import Coordinator
from moldau.client.base.offsets import LATEST, Found
from moldau.client.group.descriptions import SHARE_TYPE, GroupDescription, MemberDescription
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Broker, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A partition that a group reads or has read. `end` is None if it is unknown."""

    where: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None
    undone: int | None = None
    """In a share group: how many records are left, as its coordinator counts them."""

    @property
    def lag(self) -> int | None:
        """How many offsets are left to read; None if nothing is committed or the end is unknown."""
        if self.undone is not None:
            return self.undone
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group, its coordinator (id -1 while the id is unknown), and its partitions in order."""

    group: GroupDescription
    coordinator: Broker
    partitions: tuple[PartitionProgress, ...]

    @property
    def lag(self) -> int:
        """The sum over all partitions whose lag is known."""
        return sum(each.lag or 0 for each in self.partitions)


class Progress:
    """Compares the committed offsets of groups with the ends of the logs."""

    def __init__(self, requests: Requests, topics: Topics, groups: Groups) -> None:
        self._requests = requests
        self._topics = topics
        self._groups = groups

    async def of_groups(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        names = arguments.names_of(groups, "group", one="group_progress")
        found = await self._groups.at_coordinators(names, self._without_ends)
        known = [each for each in found.values() if isinstance(each, GroupProgress)]
        led = await self._topics.led(sorted({p.where for each in known for p in each.partitions}))
        ends = await self._topics.offsets(dict.fromkeys(led, LATEST))
        return {
            group: each if isinstance(each, KafkaError) else _with_ends(each, ends)
            for group, each in found.items()
        }

    async def _without_ends(self, coordinator: Coordinator) -> GroupProgress:
        """Return the progress as the group's coordinator knows it, without ends."""
        group = await self._groups.described(coordinator)
        undone: dict[TopicPartition, int | None] = {}
        if group.type == SHARE_TYPE:
            stands = await self._groups.share_offsets(coordinator)
            undone = {where: left for where, (_, left) in stands.items()}
            committed = {
                where: OffsetAndMetadata(start)
                for where, (start, _) in stands.items()
                if start >= 0
            }
        else:
            committed = await self._groups.committed(coordinator)
        readers = {where: each for each in group.members for where in each.assignment}
        address = (await coordinator.connection()).address
        known = self._requests.cluster.metadata.brokers.values()
        broker = next((each for each in known if each.address == address), None)
        partitions = (
            PartitionProgress(
                where, committed.get(where), None, readers.get(where), undone.get(where)
            )
            for where in sorted(committed.keys() | readers.keys())
        )
        return GroupProgress(group, broker or Broker(-1, address), tuple(partitions))


def _with_ends(progress: GroupProgress, ends: Found) -> GroupProgress:
    partitions = (
        replace(each, end=ends[each.where].offset) if each.where in ends else each
        for each in progress.partitions
    )
    return replace(progress, partitions=tuple(partitions))
