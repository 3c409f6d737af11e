"""Creates groups of the kinds that are served. The first consumer group imports its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic.group import ClassicGroup

if TYPE_CHECKING:
    from moldau.broker.coordinator.group import contract


class Kinds:
    """Creates empty groups. Satisfies `contract.GroupMakers`."""

    def classic(self, group_id: str, world: contract.World) -> contract.ClassicGroup:
        return ClassicGroup(group_id, world)

    def consumer(self, group_id: str, world: contract.World) -> contract.ConsumerGroup:
        from moldau.broker.coordinator.group.consumer.group import ConsumerGroup

        return ConsumerGroup(group_id, world)
