"""A member of a group: aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.conformance.programs.members.member import (
    COMMIT_INTERVAL_MS,
    Telling,
    Wish,
    end_of_input,
)

STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def __init__(self, telling: Telling) -> None:
        self.telling = telling

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.telling.came(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.telling.went(each.partition for each in revoked)


async def main() -> None:
    wish, telling, is_over = Wish.told(), Telling(), end_of_input()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=wish.bootstrap,
        client_id=wish.name,
        group_id=wish.group,
        group_instance_id=wish.instance or None,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=wish.session_ms,
        heartbeat_interval_ms=wish.heartbeat_ms,
        partition_assignment_strategy=[STRATEGIES[each] for each in wish.strategy.split(",")],
    )
    await consumer.start()
    consumer.subscribe([wish.topic], listener=Listener(telling))
    while not is_over.is_set():
        found = await consumer.getmany(timeout_ms=100)
        telling.read((each.partition, each.offset) for part in found.values() for each in part)
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main())
