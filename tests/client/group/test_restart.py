"""A broker that goes and comes back: its groups' members live on and nothing is left out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from tests.client.choices import GroupProtocol
from tests.conformance.broker import MoldauBroker

pytestmark = pytest.mark.real


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_members_outlive_a_restart(tmp_path: Path, protocol: GroupProtocol, is_clean: bool) -> None:
    values: list[int] = []

    async def read(consumer: Consumer) -> None:
        while True:
            for part in await consumer.poll(1.0):
                values.extend(int(record.value or b"") for record in part.records)

    async def write(bootstrap: str, numbers: range) -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_many("t", [b"%d" % number for number in numbers])

    async def seen(count: int) -> None:
        while len(set(values)) < count:  # noqa: ASYNC110 - it is another process that changes
            await asyncio.sleep(0.05)

    async def main(broker: MoldauBroker) -> None:
        bootstrap = broker.bootstrap_servers
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topic(NewTopic("t", 4, 1))
        async with Consumer(
            bootstrap_servers=bootstrap,
            group_id="g",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
        ) as consumer:
            await consumer.subscribe("t")
            task = asyncio.create_task(read(consumer))
            await write(bootstrap, range(100))
            await seen(100)
            await asyncio.to_thread(broker.stop if is_clean else broker.kill)
            await asyncio.to_thread(broker.start)
            await write(bootstrap, range(100, 200))
            await seen(200)
            task.cancel()
            await asyncio.wait([task])
        async with Admin(bootstrap_servers=bootstrap) as admin:
            stored = await admin.group_offsets("g")
        assert sum(each.offset for each in stored.values()) == 200

    async def bounded(broker: MoldauBroker) -> None:
        async with asyncio.timeout(90):
            await main(broker)

    with MoldauBroker(tmp_path) as broker:
        asyncio.run(bounded(broker))
