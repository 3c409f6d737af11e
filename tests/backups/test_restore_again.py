"""A restore that is run again, and clusters into which nothing is restored."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.backups import restored_log
from moldau.backups.manifest import BackupFailed
from moldau.client import Admin, NewTopic, Producer
from moldau.protocol.messages.restore_records import (
    RestoreRecordsRequest,
    RestoreRecordsResponse,
)
from moldau.records import encode_batch, stamp, walk
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import Died, backed_up, restored

pytestmark = pytest.mark.real


async def _make(address: str, name: str) -> None:
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic(name, partitions=1))


def test_it_goes_on_with_the_backup_with_which_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored_log, "_RUN_BYTES", 1)

    async def main() -> None:
        async with EmbeddedBroker() as old, EmbeddedBroker() as new:
            await _make(old.bootstrap_servers, "orders")
            for _ in range(2):
                await shop.add_orders(old.bootstrap_servers, 20)
            first = await backed_up(old.bootstrap_servers, tmp_path)
            logs = await shop.logs(old.bootstrap_servers, ("orders",))
            with pytest.raises(Died):
                await restored(new.bootstrap_servers, tmp_path, appends_max=1)
            await shop.add_orders(old.bootstrap_servers, 20)
            second = await backed_up(old.bootstrap_servers, tmp_path)
            with pytest.raises(BackupFailed, match=f"half restored from {first.name}: "):
                await restored(new.bootstrap_servers, tmp_path, 1)
            assert (await restored(new.bootstrap_servers, tmp_path)).name == first.name
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs
            with pytest.raises(BackupFailed, match=f"ends at 40, but at 60 in {second.name}"):
                await restored(new.bootstrap_servers, tmp_path)

    asyncio.run(main())


def test_a_log_with_something_else_in_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored_log, "_RUN_BYTES", 1)

    async def main() -> None:
        async with EmbeddedBroker() as old, EmbeddedBroker() as new:
            await _make(old.bootstrap_servers, "orders")
            for _ in range(3):
                await shop.add_orders(old.bootstrap_servers, 20)
            taken = await backed_up(old.bootstrap_servers, tmp_path)
            ((_, end, data),) = (await shop.logs(old.bootstrap_servers, ("orders",))).values()
            with pytest.raises(Died):
                await restored(new.bootstrap_servers, tmp_path, appends_max=1)
            ((_, half, _),) = (await shop.logs(new.bootstrap_servers, ("orders",))).values()
            inside = set(range(half + 1, end)) - {each.header.next_offset for each in walk(data)}
            count = min(inside) - half
            batch = encode_batch([(0, None, b"other", ())] * count)
            stamp(batch, half, 0)
            request = RestoreRecordsRequest(
                name="orders",
                topic_id=taken.manifest.topics[0].topic_id,
                partition_index=0,
                log_end_offset=half,
                start_offset=0,
                log_start_offset=0,
                records=batch,
                timeout_ms=5000,
            )
            async with Admin(bootstrap_servers=new.bootstrap_servers) as admin:
                answer = await admin._cluster.call(request, RestoreRecordsResponse)
            assert (answer.error_code, answer.log_end_offset) == (0, min(inside))
            with pytest.raises(BackupFailed, match="where no batch of the backup ends"):
                await restored(new.bootstrap_servers, tmp_path)

    asyncio.run(main())


def test_open_transactions_are_aborted_once_and_those_of_the_new_cluster_never(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old, EmbeddedBroker() as new:
            await _make(old.bootstrap_servers, "payments")
            async with Producer(
                bootstrap_servers=old.bootstrap_servers, transactional_id="open"
            ) as producer:
                await producer.begin_transaction()
                await producer.send("payments", b"half")
                await producer.flush()
                await backed_up(old.bootstrap_servers, tmp_path)
                with pytest.raises(BackupFailed, match="the cluster that was backed up"):
                    await restored(old.bootstrap_servers, tmp_path)
                await producer.send("payments", b"whole")
                await producer.commit_transaction()
            values = await shop.committed_values(old.bootstrap_servers, "payments")
            assert values == [b"half", b"whole"]
            address = new.bootstrap_servers
            with pytest.raises(Died):  # behind the marker, before the topic is whole
                await restored(address, tmp_path, appends_max=2)
            assert (await restored(address, tmp_path)).aborted == 0
            ((_, end, _),) = (await shop.logs(address, ("payments",))).values()
            assert end == 2
            async with Producer(bootstrap_servers=address, transactional_id="new") as producer:
                await producer.begin_transaction()
                await producer.send("payments", b"new")
                await producer.flush()
                again = await restored(address, tmp_path)
                assert (again.aborted, again.kept) == (0, 1)
                await producer.commit_transaction()
            assert await shop.committed_values(address, "payments") == [b"new"]

    asyncio.run(main())


def test_ids_that_brokers_hold_already_are_in_no_restored_batch(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old, EmbeddedBroker() as new:
            await _make(old.bootstrap_servers, "orders")
            for _ in range(5):
                await shop.add_orders(old.bootstrap_servers, 3)
            await backed_up(old.bootstrap_servers, tmp_path)
            async with Admin(bootstrap_servers=new.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("other", partitions=1))
                async with Producer(bootstrap_servers=new.bootstrap_servers) as producer:
                    await producer.send_and_wait("other", b"the broker holds a block of ids")
                await admin.delete_topic("other")
            done = await restored(new.bootstrap_servers, tmp_path)
            assert any("restart" in note for note in done.notes)
            for _ in range(5):
                await shop.add_orders(new.bootstrap_servers, 3)
            ((_, end, _),) = (await shop.logs(new.bootstrap_servers, ("orders",))).values()
            assert end == 30

    asyncio.run(main())
