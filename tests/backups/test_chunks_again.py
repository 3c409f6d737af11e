"""Which chunks of the newest backup the next one uses again, and what is wrong in a bucket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.backups import taking
from moldau.backups.manifest import BackupFailed, chunk_name
from moldau.backups.taking import TakenBackup
from moldau.client import Admin, NewTopic, Producer
from moldau.client.admin.configs import Resource, ResourceType
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import backed_up, restored

pytestmark = pytest.mark.real


async def _make_orders(address: str) -> None:
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic("orders", partitions=1))
    await shop.add_orders(address, 20)


def _object_of(place: Path, taken: TakenBackup) -> Path:
    ((topic, number, log),) = taken.manifest.logs()
    (chunk,) = log.chunks
    return place / chunk_name(topic.topic_id, number, chunk)


def test_a_chunk_that_is_gone_or_torn_is_stored_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            address = old.bootstrap_servers
            await _make_orders(address)
            taken = await backed_up(address, tmp_path)
            path = _object_of(tmp_path, taken)
            data = path.read_bytes()
            assert (await backed_up(address, tmp_path)).new_chunks == 0
            path.unlink()
            assert (await backed_up(address, tmp_path)).new_chunks == 1
            assert path.read_bytes() == data
            for torn in (data[:-1], b""):
                path.write_bytes(torn)
                with pytest.raises(BackupFailed, match=f"{path.name} is damaged: delete it"):
                    await backed_up(address, tmp_path)
            path.unlink()
            await shop.add_orders(address, 20)
            again = await backed_up(address, tmp_path)
            assert _object_of(tmp_path, again).stat().st_size == again.new_bytes
            logs = await shop.logs(address, ("orders",))
        async with EmbeddedBroker() as new:
            await restored(new.bootstrap_servers, tmp_path)
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs

    asyncio.run(main())


def test_a_compacted_log_is_read_again_when_tombstones_may_be_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            address = old.bootstrap_servers
            async with Admin(bootstrap_servers=address) as admin:
                resource = Resource(ResourceType.TOPIC, "table")
                configs = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
                await admin.create_topic(NewTopic("table", partitions=1, configs=configs))
                async with Producer(bootstrap_servers=address) as producer:
                    await producer.send_and_wait("table", b"value", key=b"key")
                for is_read_again in (True, True):
                    assert (await backed_up(address, tmp_path)).new_chunks == is_read_again
                await admin.alter_configs(resource, set_to={"delete.retention.ms": "3600000"})
                for is_read_again in (True, False):
                    assert (await backed_up(address, tmp_path)).new_chunks == is_read_again
                await admin.alter_configs(resource, set_to={"cleanup.policy": "delete"})
                assert (await backed_up(address, tmp_path)).new_chunks == 0

    asyncio.run(main())


def test_a_damaged_manifest_and_other_files_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            address = old.bootstrap_servers
            await _make_orders(address)
            taken = await backed_up(address, tmp_path)
            path = tmp_path / taken.name
            data = path.read_bytes()
            path.write_bytes(data[:-1] + b" ")
            with pytest.raises(BackupFailed, match=f"{path.name} is damaged: .*delete it"):
                await backed_up(address, tmp_path)
            path.write_bytes(data)
            other = path.with_name("dump.sql.gz")
            other.write_bytes(b"data")
            named = r"dump\.sql\.gz is no backup"
            with pytest.raises(BackupFailed, match=named):
                await backed_up(address, tmp_path)
            with pytest.raises(BackupFailed, match=named):
                await restored(address, tmp_path)

    asyncio.run(main())


def test_a_partition_without_a_leader_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object) -> None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, topic="orders", partition=0)

    async def main() -> None:
        async with EmbeddedBroker() as old:
            await _make_orders(old.bootstrap_servers)
            monkeypatch.setattr(taking, "list_offsets", failing)
            with pytest.raises(BackupFailed, match="topic orders cannot be read, so no backup"):
                await backed_up(old.bootstrap_servers, tmp_path)

    asyncio.run(main())
    assert not list(tmp_path.rglob("*.json"))
