"""A topic with old segments in a remote store is backed up whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.client.base.offsets import EARLIEST_LOCAL
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import backed_up, restored

pytestmark = pytest.mark.real

WHERE = TopicPartition("orders", 0)


def settings(store: Path) -> dict[str, str]:
    store.mkdir()
    return {
        "remote.log.storage.system.enable": "true",
        "remote.storage": f"file://{store}",
        "remote.log.manager.task.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
        "log.retention.check.interval.ms": "100",
    }


async def _fill(address: str) -> None:
    """Make a topic, of which a part is remote alone."""
    configs = {
        "remote.storage.enable": "true",
        "internal.segment.bytes": "100000",
        "file.delete.delay.ms": "0",
        "local.retention.bytes": "1",
    }
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic("orders", partitions=1, configs=configs))
        async with Producer(bootstrap_servers=address) as producer:
            for number in range(50):
                await producer.send("orders", number.to_bytes(4, "big") * 5_000)
            await producer.flush()
        while (await admin.list_offsets({WHERE: EARLIEST_LOCAL}))[WHERE].offset <= 0:
            pass


def test_remote_and_local_records_come_back(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    place.mkdir()

    async def main() -> None:
        async with EmbeddedBroker(settings(tmp_path / "old")) as old:
            await _fill(old.bootstrap_servers)
            await backed_up(old.bootstrap_servers, place)
            logs = await shop.logs(old.bootstrap_servers, ("orders",))
        assert logs[WHERE][:2] == (0, 50)
        async with EmbeddedBroker(settings(tmp_path / "new")) as new:
            await restored(new.bootstrap_servers, place)
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs

    asyncio.run(main())
