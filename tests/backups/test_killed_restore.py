"""Three brokers as processes: the restore is killed, a broker is killed, and nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.client.base.offsets import LATEST
from moldau.errors.codes import KafkaError
from moldau.testing.cluster import Cluster
from tests.backups import shop
from tests.backups.places import backed_up, restored

pytestmark = [pytest.mark.real, pytest.mark.slow]

_PARTITIONS = 2
_TOPICS = ("orders",)


async def _fill(address: str) -> None:
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic("orders", partitions=_PARTITIONS, replication_factor=3))
    async with Producer(bootstrap_servers=address) as producer:
        for number in range(600):
            value = number.to_bytes(4, "big") * 16_000
            await producer.send("orders", value, partition=number % _PARTITIONS)
        await producer.flush()


async def _await_records(address: str) -> None:
    """Wait until the restore has appended something."""
    async with Admin(bootstrap_servers=address) as admin:
        while True:
            try:
                wanted = {TopicPartition("orders", index): LATEST for index in range(_PARTITIONS)}
                found = await admin.list_offsets(wanted)
            except KafkaError:
                continue
            if any(each.offset for each in found.values()):
                return


def test_a_killed_restore_goes_on_with_another_leader(tmp_path: Path) -> None:
    place = tmp_path / "backup"
    place.mkdir()
    with Cluster(3) as old:
        asyncio.run(_fill(old.bootstrap_servers))
        asyncio.run(backed_up(old.bootstrap_servers, place))
        logs = asyncio.run(shop.logs(old.bootstrap_servers, _TOPICS))
    with Cluster(3) as new:
        address = new.bootstrap_servers
        words = [sys.executable, "-m", "moldau", "restore", "-b", address, f"file://{place}"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as killed:  # noqa: S603
            asyncio.run(_await_records(address))
            killed.kill()
        gone = new.leader_of("orders")
        new.kill(gone)
        done = asyncio.run(restored(address, place))
        assert done.manifest.topics
        new.start(gone)
        for index in range(_PARTITIONS):
            new.await_in_sync("orders", index=index)
        for stopped in new.broker_ids:  # each broker leads once, with all that was restored
            new.kill(stopped)
            assert asyncio.run(shop.logs(address, _TOPICS)) == logs
            new.start(stopped)
            for index in range(_PARTITIONS):
                new.await_in_sync("orders", index=index)
