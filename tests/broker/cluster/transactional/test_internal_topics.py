"""The topics of coordinators under transactions: compaction keeps them small, and nothing that was
committed is lost, and nothing that was aborted comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from moldau.client import Admin, NewTopic, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.transactional.wire import (
    INTERNAL_PARTITIONS,
    OFFSETS,
    TRANSACTIONS,
    Wire,
)
from tests.broker.cluster.world import SimulatedBrokers, new_world

T = TypeVar("T")

ENDED = 200
SETTINGS = {
    "log_roll_ms": "300",
    "log_cleaner_backoff_ms": "100",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_cleaner_delete_retention_ms": "0",
    "log_index_size_max_bytes": "4096",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "300",
}


async def again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Until it is answered without an error."""
    while True:
        try:
            return await attempt()
        except KafkaError:
            await asyncio.sleep(0.02)


async def commit_many(runtime: Runtime, brokers: SimulatedBrokers) -> None:
    """Commit offset n in transaction n, abort each third, and leave the last one open."""
    async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
        await admin.create_topic(NewTopic("t", 1))
    of = Wire(runtime, brokers, "app", 2, Random(1))
    producer = await again(lambda: of.init(None))
    for number in range(1, ENDED + 2):
        place, current = ("t", 0), producer
        await again(partial(of.commit_offset, current, "app", place, number))
        if number <= ENDED:
            producer = await of.end(producer, commit=number % 3 != 0)
            await asyncio.sleep(0.05)
    await of.aclose()


def sizes(brokers: SimulatedBrokers, topic: str) -> int:
    """The bytes of all partitions of a topic."""
    return sum(
        log.size_bytes
        for index in range(INTERNAL_PARTITIONS)
        for log in brokers.logs(topic, index).values()
    )


@pytest.mark.usefixtures("no_world_is_left")
def test_compaction_bounds_the_topics_of_coordinators_and_changes_nothing() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(world, 1, controllers=0, first_voter=None, **SETTINGS)
        brokers.await_up()
        brokers.run(lambda runtime: commit_many(runtime, brokers), "app", within=120)

        async def committed(runtime: Runtime) -> int:
            async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
                offsets = await admin.group_offsets("app")
                return offsets[TopicPartition("t", 0)].offset

        for _ in range(2):
            world.run_for(10)
            assert brokers.run(committed, within=30) == ENDED
            # Without compaction there are 86 kB of states, and 41 kB of offsets and markers.
            assert sizes(brokers, TRANSACTIONS) < 8_000
            assert sizes(brokers, OFFSETS) < 8_000
            brokers.kill(1)
            brokers.start(1)
            brokers.await_up()
