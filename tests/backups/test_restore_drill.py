"""A cluster is backed up, and restored into another one that is compared with it byte by byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.backups import log_reader, restored_log
from moldau.backups.manifest import BackupFailed, chunk_name
from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import Died, backed_up, restored

pytestmark = pytest.mark.real


def test_a_restored_cluster_is_equal(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker(shop.SETTINGS) as old:
            await shop.fill(old.bootstrap_servers)
            first = await backed_up(old.bootstrap_servers, tmp_path)
            second = await backed_up(old.bootstrap_servers, tmp_path)
            await shop.add_orders(old.bootstrap_servers, 50)
            third = await backed_up(old.bootstrap_servers, tmp_path)
            logs = await shop.logs(old.bootstrap_servers)
            facts = await shop.facts(old.bootstrap_servers)
            paid = await shop.committed_values(old.bootstrap_servers, "payments")
        assert second.new_chunks == 0
        assert 0 < third.new_bytes < first.new_bytes
        assert first.manifest.objects.items() <= third.manifest.objects.items()
        assert paid == [b"paid", b"paid again"]
        async with EmbeddedBroker(shop.AS_IT_IS) as new:
            address = new.bootstrap_servers
            done = await restored(address, tmp_path)
            assert await shop.logs(address) == logs
            assert await shop.facts(address) == facts
            assert await shop.committed_values(address, "payments") == paid
            assert any("ann" in note for note in done.notes)
            again = await restored(address, tmp_path)
            assert again.sent_bytes == 0
            await shop.add_orders(address, 10)
            after = await shop.logs(address)
            assert all(after[where][2].startswith(log[2]) for where, log in logs.items())
            assert _count(after) == 10 + _count(logs)

    asyncio.run(main())


async def _is_restored(address: str, place: Path) -> bool:
    try:
        await restored(address, place, appends_max=1)
    except Died:
        return False
    return True


def _count(logs: dict[TopicPartition, tuple[int, int, bytes]]) -> int:
    return sum(end for _, end, _ in logs.values())


def test_a_restore_that_dies_anywhere_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "CHUNK_BYTES", 1)
    monkeypatch.setattr(restored_log, "_RUN_BYTES", 1)

    async def main() -> None:
        async with EmbeddedBroker(shop.SETTINGS) as old:
            await shop.fill(old.bootstrap_servers)
            for _ in range(6):
                await shop.add_orders(old.bootstrap_servers, 9)
            taken = await backed_up(old.bootstrap_servers, tmp_path)
            logs = await shop.logs(old.bootstrap_servers)
            facts = await shop.facts(old.bootstrap_servers)
        chunks = sum(len(log.chunks) for _, _, log in taken.manifest.logs())
        assert chunks > 12
        async with EmbeddedBroker(shop.AS_IT_IS) as new:
            address, deaths = new.bootstrap_servers, 0
            while not await _is_restored(address, tmp_path):
                deaths += 1
            assert deaths >= 4
            assert await shop.logs(address) == logs
            assert await shop.facts(address) == facts

    asyncio.run(main())


def test_a_new_producer_gets_no_id_that_is_in_restored_batches(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            async with Admin(bootstrap_servers=old.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("orders", partitions=1))
            await shop.add_orders(old.bootstrap_servers, 3)
            await backed_up(old.bootstrap_servers, tmp_path)
        async with EmbeddedBroker() as new:
            async with Admin(bootstrap_servers=new.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("other", partitions=1))
                async with Producer(bootstrap_servers=new.bootstrap_servers) as producer:
                    await producer.send_and_wait("other", b"the broker holds a block of ids")
                await admin.delete_topic("other")
            await restored(new.bootstrap_servers, tmp_path)
            await shop.add_orders(new.bootstrap_servers, 3)
            (log,) = (await shop.logs(new.bootstrap_servers, ("orders",))).values()
            assert log[1] == 6

    asyncio.run(main())


def test_a_transaction_that_was_open_is_aborted(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            async with Admin(bootstrap_servers=old.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("payments", partitions=1))
            await shop.pay(old.bootstrap_servers)
            async with Producer(
                bootstrap_servers=old.bootstrap_servers, transactional_id="open"
            ) as producer:
                await producer.begin_transaction()
                await producer.send("payments", b"half")
                await producer.flush()
                await backed_up(old.bootstrap_servers, tmp_path)
                logs = await shop.logs(old.bootstrap_servers, ("payments",))
                await producer.abort_transaction()
        async with EmbeddedBroker() as new:
            done = await restored(new.bootstrap_servers, tmp_path)
            assert done.aborted == 1
            (before,), (after,) = (
                logs.values(),
                (await shop.logs(new.bootstrap_servers, ("payments",))).values(),
            )
            assert after[2].startswith(before[2])
            assert after[1] == before[1] + 1
            await shop.pay(new.bootstrap_servers)
            values = await shop.committed_values(new.bootstrap_servers, "payments")
            assert values == [b"paid", b"paid again"] * 2

    asyncio.run(main())


def test_records_and_groups_are_as_of_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        where = TopicPartition("orders", 0)
        async with EmbeddedBroker() as old:
            async with Admin(bootstrap_servers=old.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("orders", partitions=1))
                await shop.add_orders(old.bootstrap_servers, 20)
                await admin.alter_group_offsets("readers", {where: 5})
                cut_ms = await shop.after_now(admin)
                await shop.add_orders(old.bootstrap_servers, 20)
                await admin.alter_group_offsets("readers", {where: 30})
                await admin.alter_group_offsets("late", {where: 30})
                await backed_up(old.bootstrap_servers, tmp_path)
            (whole,) = (await shop.logs(old.bootstrap_servers, ("orders",))).values()
        async with EmbeddedBroker() as new:
            await restored(new.bootstrap_servers, tmp_path, cut_ms)
            (early,) = (await shop.logs(new.bootstrap_servers, ("orders",))).values()
            assert early[:2] == (0, 20)
            assert whole[2].startswith(early[2])
            async with Admin(bootstrap_servers=new.bootstrap_servers) as admin:
                assert (await admin.group_offsets("readers"))[where].offset == 5
                assert not await admin.group_offsets("late")
        async with EmbeddedBroker() as third:
            with pytest.raises(BackupFailed, match=r"no backup .* was begun at that time"):
                await restored(third.bootstrap_servers, tmp_path, cut_ms + 10**9)

    asyncio.run(main())


def test_an_object_that_is_missing_or_torn_is_named_before_anything_is_restored(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old:
            async with Admin(bootstrap_servers=old.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("orders", partitions=1))
            await shop.add_orders(old.bootstrap_servers, 20)
            taken = await backed_up(old.bootstrap_servers, tmp_path)
        ((topic, _, log),) = taken.manifest.logs()
        chunk = tmp_path / chunk_name(topic.topic_id, 0, log.chunks[0])
        document = tmp_path / taken.name
        bytes_of = {each: each.read_bytes() for each in (chunk, document)}
        async with EmbeddedBroker() as new:
            for path, data, what in (
                (chunk, None, "is missing"),
                (chunk, bytes_of[chunk][:-1], "has .* of .* bytes"),
                (document, bytes_of[document][:-1], "is damaged"),
            ):
                path.unlink()
                if data is not None:
                    path.write_bytes(data)
                with pytest.raises(BackupFailed, match=f"{path.name} {what}"):
                    await restored(new.bootstrap_servers, tmp_path)
                path.write_bytes(bytes_of[path])
            async with Admin(bootstrap_servers=new.bootstrap_servers) as admin:
                assert not await admin.list_topics()
            turned = bytearray(bytes_of[chunk])
            turned[-1] ^= 1
            chunk.write_bytes(turned)
            with pytest.raises(BackupFailed, match="is damaged"):
                await restored(new.bootstrap_servers, tmp_path)
            chunk.write_bytes(bytes_of[chunk])
            await restored(new.bootstrap_servers, tmp_path)
            (found,) = (await shop.logs(new.bootstrap_servers, ("orders",))).values()
            assert found[1] == 20

    asyncio.run(main())


def test_a_prefix_has_one_cluster_and_a_restore_an_empty_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedBroker() as old, EmbeddedBroker() as other:
            async with Admin(bootstrap_servers=other.bootstrap_servers) as admin:
                await admin.create_topic(NewTopic("mine", partitions=1))
            with pytest.raises(BackupFailed, match="no backup"):
                await restored(other.bootstrap_servers, tmp_path)
            await backed_up(old.bootstrap_servers, tmp_path)
            with pytest.raises(BackupFailed, match="not empty: it has topic mine"):
                await restored(other.bootstrap_servers, tmp_path)
            with pytest.raises(BackupFailed, match="another cluster"):
                await backed_up(other.bootstrap_servers, tmp_path)

    asyncio.run(main())
