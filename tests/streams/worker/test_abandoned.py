"""A takeover ends open transactions of workers that are gone, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from moldau.client import LATEST, Admin, Consumer, Producer, TopicPartition
from moldau.streams.worker.exactly_once import end_abandoned
from tests.streams.worker.running import Cluster, names


@asynccontextmanager
async def open_transaction(
    cluster: Cluster, transactional_id: str, topic: str, partition: int
) -> AsyncIterator[Producer]:
    """A record that no one has committed, and that is aborted at the end if nothing else did it."""
    producer = Producer(
        bootstrap_servers=cluster.servers,
        transactional_id=transactional_id,
        runtime=cluster.runtime,
    )
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=partition)
        yield producer
    finally:
        await producer.aclose(abort=True)


async def is_stable(admin: Admin, where: TopicPartition) -> bool:
    latest = dict.fromkeys([where], LATEST)
    ends = await admin.list_offsets(latest)
    stable = await admin.list_offsets(latest, is_committed=True)
    return ends[where].offset == stable[where].offset


async def read_to_its_end(cluster: Cluster, where: TopicPartition) -> None:
    """Only what is behind no open transaction can be read."""
    async with (
        asyncio.timeout(30),
        Consumer(
            bootstrap_servers=cluster.servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            runtime=cluster.runtime,
        ) as consumer,
    ):
        consumer.assign([where])
        while (consumer.position(where) or 0) < 2:  # the record, and the marker that aborts it
            assert await consumer.poll(1.0) == []


async def test_only_what_other_workers_of_the_app_left_in_the_changelogs_is_aborted(
    cluster: Cluster,
) -> None:
    app, topic, other_topic = names()
    await cluster.make(topic, other_topic, partitions=4)
    async with AsyncExitStack() as left:
        admin = await left.enter_async_context(
            Admin(bootstrap_servers=cluster.servers, runtime=cluster.runtime)
        )
        opened = (
            (f"{app}-gone", topic, 0),
            (f"{app}-me", topic, 1),
            ("another-app", topic, 2),
            (f"{app}-elsewhere", topic, 3),
        )
        for name, where, partition in opened:
            await left.enter_async_context(open_transaction(cluster, name, where, partition))
        changelogs = [TopicPartition(topic, partition) for partition in range(3)]
        ended = await end_abandoned(admin, app, f"{app}-me", changelogs)
        assert ended == [f"{app}-gone"]
        await read_to_its_end(cluster, changelogs[0])
        for partition in (1, 2, 3):
            assert not await is_stable(admin, TopicPartition(topic, partition))
        assert await end_abandoned(admin, app, f"{app}-me", changelogs) == []
