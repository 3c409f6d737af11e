"""A member of a group: moldau's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.client import Consumer, RebalanceListener, TopicPartition
from tests.conformance.programs.members.member import (
    COMMIT_INTERVAL_MS,
    Telling,
    Wish,
    end_of_input,
)


class Listener(RebalanceListener):
    def __init__(self, telling: Telling) -> None:
        self.telling = telling

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.telling.came(each.partition for each in partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.telling.went(each.partition for each in partitions)


async def main() -> None:
    wish, telling, is_over = Wish.told(), Telling(), end_of_input()
    settings: dict[str, object] = {
        "bootstrap.servers": wish.bootstrap,
        "client.id": wish.name,
        "group.id": wish.group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
    }
    if wish.instance:
        settings["group.instance.id"] = wish.instance
    if wish.strategy == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["session.timeout.ms"] = wish.session_ms
        settings["heartbeat.interval.ms"] = wish.heartbeat_ms
        settings["partition.assignment.strategy"] = wish.strategy
    async with Consumer(settings) as consumer:
        await consumer.subscribe([wish.topic], listener=Listener(telling))
        while not is_over.is_set():
            for part in await consumer.poll(0.1):
                telling.read((part.partition, each.offset) for each in part.records)


if __name__ == "__main__":
    asyncio.run(main())
