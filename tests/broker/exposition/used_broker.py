"""A broker with records, a group and a share group whose numbers are known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.client import Admin, Consumer, NewTopic, Producer, Resource, ResourceType, ShareConsumer
from moldau.testing import EmbeddedBroker

RECORDS = 7


async def used(servers: str) -> None:
    """Records of known size in one of two partitions; a group has read three of them."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic("orders", 2))
        await admin.create_topic(NewTopic("idle", 1))
    async with Producer(bootstrap_servers=servers) as producer:
        for _ in range(RECORDS):
            await producer.send_and_wait("orders", b"x" * 100, partition=1)
    async with Consumer(
        bootstrap_servers=servers, group_id="billing", enable_auto_commit=False
    ) as consumer:
        consumer.assign([("orders", 1)])
        await consumer.seek_to_beginning()
        await consumer.getone()
        await consumer.commit({("orders", 1): 3})


async def worked(servers: str, then: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A member of a share group has accepted one record of those that it was given."""
    async with Admin(bootstrap_servers=servers) as admin:
        group = Resource(ResourceType.GROUP, "mailer")
        await admin.alter_configs(group, set_to={"share.auto.offset.reset": "earliest"})
    async with ShareConsumer("orders", group="mailer", bootstrap_servers=servers) as queue:
        message = await anext(queue)
        message.ack()
        await queue.commit()
        await then()


def with_a_used_broker(check: Callable[[EmbeddedBroker], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker:
            await used(broker.bootstrap_servers)
            await worked(broker.bootstrap_servers, lambda: check(broker))

    asyncio.run(run())
