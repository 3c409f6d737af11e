"""How far groups have come: what they have committed, beside the ends of the logs and
the members that read them.

Invariant: one partition that cannot be asked (its topic is gone, nobody leads it) costs the others
nothing: it is in the answer, without an end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from moldau.client.admin.groups import GroupAdmin
from moldau.client.admin.topics import TopicAdmin
from moldau.client.consumer.offsets import LATEST, Found
from moldau.client.group.coordinator import Coordinator
from moldau.client.group.descriptions import GroupDescription, MemberDescription
from moldau.client.settings.arguments import OffsetAndMetadata, Partition, names_of, partitions_in
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Broker, Topic, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A partition that a group reads or has read. `end` is None where nobody can say it."""

    where: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """How many offsets are left to read; None where nothing is committed or no end known."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """A group, the broker that coordinates it (its id is -1 if it is not known yet), and the
    partitions in order."""

    group: GroupDescription
    coordinator: Broker
    partitions: tuple[PartitionProgress, ...]

    @property
    def lag(self) -> int:
        """Of all partitions for which it is known."""
        return sum(each.lag or 0 for each in self.partitions)


@dataclass(frozen=True, slots=True)
class _Part:
    """What the coordinator of a group knows."""

    group: GroupDescription
    coordinator: Broker
    committed: dict[TopicPartition, OffsetAndMetadata]

    @property
    def readers(self) -> dict[TopicPartition, MemberDescription]:
        return {where: each for each in self.group.members for where in each.assignment}

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self.committed.keys() | self.readers.keys())

    def with_ends(self, ends: Found) -> GroupProgress:
        readers = self.readers
        return GroupProgress(
            self.group,
            self.coordinator,
            tuple(
                PartitionProgress(
                    where,
                    self.committed.get(where),
                    ends[where].offset if where in ends else None,
                    readers.get(where),
                )
                for where in self.partitions
            ),
        )


class ProgressAdmin(TopicAdmin, GroupAdmin):
    """Groups beside the logs that they read."""

    async def group_progress(self, group: str) -> GroupProgress:
        """State, members, committed offsets and lag; KafkaError when there is no such group."""
        found = (await self.groups_progress([group]))[group]
        if isinstance(found, KafkaError):
            raise found
        return found

    async def groups_progress(self, groups: Iterable[str]) -> dict[str, GroupProgress | KafkaError]:
        """As `group_progress` for several; logs that several groups read are asked once."""
        chosen_groups = names_of(groups, "group", one="group_progress")
        parts = await self._each_group(chosen_groups, self._part)
        chosen = {
            where
            for part in parts.values()
            if not isinstance(part, KafkaError)
            for where in part.partitions
        }
        led = await self.led_partitions(sorted(chosen))
        ends = await self.list_offsets(dict.fromkeys(led, LATEST))
        return {
            group: part if isinstance(part, KafkaError) else part.with_ends(ends)
            for group, part in parts.items()
        }

    async def _part(self, coordinator: Coordinator) -> _Part:
        group = await self._describe(coordinator)
        committed = await self._committed(coordinator, None)
        address = (await coordinator.connection()).address
        known = self._cluster.metadata.brokers.values()
        broker = next((each for each in known if each.address == address), None)
        return _Part(group, broker or Broker(-1, address), committed)

    async def led_partitions(self, chosen: Iterable[Partition]) -> list[TopicPartition]:
        """Those of them that there are, and that have a leader at present."""
        wanted = partitions_in(chosen)
        topics = await self.describe_topics({where.topic for where in wanted})
        led = {
            TopicPartition(topic.name, each.index)
            for topic in topics.values()
            if isinstance(topic, Topic)
            for each in topic.partitions
            if each.leader >= 0
        }
        return [where for where in wanted if where in led]
