"""A cluster is backed up, and restored into another one that is compared with it byte by byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.backups.backup_store import BackupStore, open_store
from moldau.backups.restoring import restore_backup
from moldau.backups.taking import TakenBackup, take_backup
from moldau.client import Admin
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.backups import shop

pytestmark = pytest.mark.real


async def backed_up(address: str, place: Path) -> TakenBackup:
    runtime = RealRuntime("backup")
    store = BackupStore(open_store(runtime, f"file://{place}"))
    async with Admin(bootstrap_servers=address) as admin:
        return await take_backup(admin, store, runtime)


async def restored(address: str, place: Path, time_ms: int | None = None):  # type: ignore[no-untyped-def]
    store = BackupStore(open_store(RealRuntime("restore"), f"file://{place}"))
    async with Admin(bootstrap_servers=address) as admin:
        return await restore_backup(admin, store, time_ms)


def test_a_restored_cluster_is_equal(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker(shop.SETTINGS) as old:
            await shop.fill(old.bootstrap_servers)
            first = await backed_up(old.bootstrap_servers, tmp_path)
            again = await backed_up(old.bootstrap_servers, tmp_path)
            assert first.new_bytes > 0
            await shop.add_orders(old.bootstrap_servers, 50)
            third = await backed_up(old.bootstrap_servers, tmp_path)
            logs = await shop.logs(old.bootstrap_servers)
            facts = await shop.facts(old.bootstrap_servers)
            paid = await shop.committed_values(old.bootstrap_servers, "payments")
        assert not [
            each
            for topic, number, log in again.manifest.logs()
            for each in log.chunks
            if each not in first.manifest.of_id(topic.topic_id).logs[number].chunks  # type: ignore[union-attr]
        ]
        assert 0 < third.new_bytes < first.new_bytes
        async with EmbeddedBroker(shop.SETTINGS) as new:
            address = new.bootstrap_servers
            done = await restored(address, tmp_path)
            assert await shop.logs(address) == logs
            assert await shop.facts(address) == facts
            assert (
                await shop.committed_values(address, "payments") == paid == [b"paid", b"paid again"]
            )
            assert any("ann" in note for note in done.notes)
            again_done = await restored(address, tmp_path)
            assert again_done.sent_bytes == 0
            await shop.add_orders(address, 10)
            after = await shop.logs(address)
            assert all(after[where][2].startswith(log[2]) for where, log in logs.items())
            assert sum(each[1] for each in after.values()) == 10 + sum(
                each[1] for each in logs.values()
            )

    asyncio.run(main())
