"""A topic that is deleted and made again."""

from __future__ import annotations

from tests.client.consumer.numbered_records import fill
from tests.client.scripted import Log
from tests.client.world import ClientWorld


def delete(world: ClientWorld) -> None:
    del world.cluster.topics["t"]
    world.cluster.ids["t"] = b"gone" * 4


def make_again(world: ClientWorld, partitions: int, count: int) -> list[Log]:
    logs = world.cluster.add_topic("t", [1] * partitions)
    world.cluster.ids["t"] = b"newx" * 4
    for log in logs:
        fill(log, count)
    return logs
