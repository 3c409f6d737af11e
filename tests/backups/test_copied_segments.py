"""Remote segments in the bucket of the backup are copied inside the store, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

from moldau.backups import backup_store
from moldau.backups.backup_store import BackupStore
from moldau.backups.manifest import BackupFailed
from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.client.base.offsets import EARLIEST_LOCAL
from moldau.objects.object_store import StoreLimits
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_errors import StoreReason, store_error
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import Died, backed_up, restored
from tests.broker.tiered import cloud_servers, s3_servers
from tests.broker.tiered.cloud_servers import CloudServer
from tests.broker.tiered.faulty_proxy import FaultyProxy
from tests.broker.tiered.s3_servers import REGION, S3Server, running

pytestmark = [pytest.mark.real, pytest.mark.deep]

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
BACKUP = "backup"
"""The prefix of backups."""
STARTS = {("orders", 0): 300}
"""Within the first segment, which is not copied therefore."""
VALUE_BYTES = 10_000
COUNT = 2_200
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": "9437184",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "0",
}


@pytest.fixture(params=["versitygw", "moto", "fake_google", "azurite"])
def server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudServer]:
    """A store of each kind, as the clients of its cloud find it."""
    with running(_STARTS[request.param]) as server:
        if server.scheme == "s3":
            s3_servers.use_key(monkeypatch)
        server.use_credentials(monkeypatch)
        monkeypatch.setenv(server.endpoint_variable, server.url)
        yield server


@contextmanager
def _amazon(start: Callable[[], AbstractContextManager[S3Server]]) -> Iterator[CloudServer]:
    with start() as server:
        yield CloudServer("s3", server.port, "", {"AWS_REGION": REGION}, "AWS_ENDPOINT_URL")


_STARTS: Mapping[str, Callable[[], AbstractContextManager[CloudServer]]] = {
    "versitygw": partial(_amazon, s3_servers.versitygw),
    "moto": partial(_amazon, s3_servers.moto),
    "fake_google": cloud_servers.fake_google,
    "azurite": cloud_servers.azurite,
}


def settings(server: CloudServer, prefix: str, **more: str) -> dict[str, str]:
    given = {
        "remote_log_storage_system_enable": "true",
        "remote_log_manager_task_interval_ms": "100",
        "log_initial_task_delay_ms": "0",
        "log_retention_check_interval_ms": "100",
        **server.settings(prefix),
        **more,
    }
    return {name.replace("_", "."): value for name, value in given.items()}


async def fill(address: str) -> int:
    """Make a topic with 20 MiB of noise in one partition, and words in the other; return a time in
    the middle. Segments have several chunks, whose ends are within batches."""
    noise = Random(1)
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic("orders", partitions=2, configs=CONFIGS))
        async with Producer(bootstrap_servers=address) as producer:
            for number in range(COUNT):
                if number == COUNT // 2:
                    await producer.flush()
                    middle_ms = await shop.after_now(admin)
                await producer.send("orders", noise.randbytes(VALUE_BYTES), partition=0)
                await producer.send("orders", b"word " * (VALUE_BYTES // 5), partition=1)
            await producer.flush()
        while await first_local(admin) <= COUNT // 2:
            pass
        await admin.delete_records(STARTS)
    return middle_ms


async def first_local(admin: Admin) -> int:
    found = await admin.list_offsets(dict.fromkeys(PLACES, EARLIEST_LOCAL))
    return min(each.offset for each in found.values())


async def restored_in_pieces(address: str, place: str, time_ms: int | None = None) -> int:
    """Restore, and die again and again; return how often."""
    deaths = 0
    while True:
        try:
            await restored(address, place, time_ms, appends_max=9)
        except Died:
            deaths += 1
        else:
            return deaths


def test_the_store_copies_and_no_bytes_come_here(
    server: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with (
            EmbeddedBroker(settings(server, "old")) as old,
            FaultyProxy(server.port) as proxy,
        ):
            middle_ms = await fill(old.bootstrap_servers)
            by_proxy = server._replace(port=proxy.port)
            monkeypatch.setenv(server.endpoint_variable, by_proxy.url)
            first = await backed_up(old.bootstrap_servers, server.address(BACKUP))
            seen_bytes = proxy.answered_bytes
            second = await backed_up(old.bootstrap_servers, server.address(BACKUP))
            logs = await shop.logs(old.bootstrap_servers, ("orders",))
        monkeypatch.setenv(server.endpoint_variable, server.url)
        assert first.not_copied == []
        assert first.copied_chunks >= 3
        assert first.copied_bytes > 8 << 20
        assert seen_bytes < 200_000
        copied = [chunk for _, _, log in first.manifest.logs() for chunk in log.chunks]
        assert max(len(each.stored_sizes) for each in copied) == 3
        assert (second.copied_chunks, second.new_chunks) == (0, 0)
        assert second.manifest.topics == first.manifest.topics
        assert logs[PLACES[0]][:2] == (300, COUNT)
        async with EmbeddedBroker(settings(server, "new")) as new:
            assert await restored_in_pieces(new.bootstrap_servers, server.address(BACKUP)) >= 2
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs
        async with EmbeddedBroker(settings(server, "then")) as then:
            await restored_in_pieces(then.bootstrap_servers, server.address(BACKUP), middle_ms)
            found = await shop.logs(then.bootstrap_servers, ("orders",))
            for place in PLACES:
                start, end, data = found[place]
                assert (start, end) == (logs[place][0], COUNT // 2)
                assert logs[place][2].startswith(data)

    asyncio.run(main())


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
@pytest.mark.parametrize("fault", ["refused", "gone", "unfinished"])
def test_a_segment_that_cannot_be_copied_is_read(
    server: CloudServer, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A copy that is not finished is an empty object, as Azure has it."""

    async def copy(bucket: ObstoreBucket, path: str, name: str) -> None:
        if fault == "unfinished":
            await bucket.put(name, b"")
            return
        reason = StoreReason.NO_RIGHTS if fault == "refused" else StoreReason.NOT_FOUND
        raise store_error(reason, "copy", name)

    monkeypatch.setattr(ObstoreBucket, "copy", copy)
    monkeypatch.setattr(backup_store, "COPY_LIMITS", StoreLimits(attempt_s=0.5, deadline_s=30.0))

    async def main() -> None:
        async with EmbeddedBroker(settings(server, "old")) as old:
            await fill(old.bootstrap_servers)
            taken = await backed_up(old.bootstrap_servers, server.address(BACKUP))
            logs = await shop.logs(old.bootstrap_servers, ("orders",))
        assert taken.copied_chunks == 0
        assert len(taken.not_copied) >= 3
        has_waited = [each for each in taken.not_copied if "has not finished it in time" in each]
        partitions = len(PLACES)  # they are copied at once
        assert len(has_waited) in (range(1, partitions + 1) if fault == "unfinished" else (0,))
        async with EmbeddedBroker(settings(server, "new")) as new:
            await restored(new.bootstrap_servers, server.address(BACKUP))
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs

    asyncio.run(main())


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_copy_that_is_pending_is_waited_for(
    server: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy is an empty object at first, as Azure has it."""
    begin, look = ObstoreBucket.copy, ObstoreBucket.size_of
    pending: dict[str, Callable[[], Awaitable[None]]] = {}

    async def copy(bucket: ObstoreBucket, path: str, name: str) -> None:
        await bucket.put(name, b"")
        pending[name] = partial(begin, bucket, path, name)

    async def size_of(bucket: ObstoreBucket, name: str) -> int:
        size = await look(bucket, name)
        if name in pending:
            await pending.pop(name)()
        return size

    monkeypatch.setattr(ObstoreBucket, "copy", copy)
    monkeypatch.setattr(ObstoreBucket, "size_of", size_of)

    async def main() -> None:
        async with EmbeddedBroker(settings(server, "old")) as old:
            await fill(old.bootstrap_servers)
            taken = await backed_up(old.bootstrap_servers, server.address(BACKUP))
            logs = await shop.logs(old.bootstrap_servers, ("orders",))
        assert taken.not_copied == []
        assert taken.copied_chunks >= 3
        async with EmbeddedBroker(settings(server, "new")) as new:
            await restored(new.bootstrap_servers, server.address(BACKUP))
            assert await shop.logs(new.bootstrap_servers, ("orders",)) == logs

    asyncio.run(main())


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_encrypted_segments_are_read(server: CloudServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one " + "A" * 43 + "=\n")

    async def main() -> None:
        encrypted = settings(server, "old", remote_storage_encryption_keys=str(keys))
        async with EmbeddedBroker(encrypted) as old:
            await fill(old.bootstrap_servers)
            taken = await backed_up(old.bootstrap_servers, server.address(BACKUP))
        assert (taken.copied_chunks, taken.not_copied) == (0, [])
        assert taken.new_bytes > 20 << 20

    asyncio.run(main())


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_damaged_copy_is_named(server: CloudServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with EmbeddedBroker(settings(server, "old")) as old:
            await fill(old.bootstrap_servers)
            await backed_up(old.bootstrap_servers, server.address(BACKUP))
        read = BackupStore._read

        async def damaged(store: BackupStore, name: str, start: int, size: int, lost: str) -> bytes:
            data = bytearray(await read(store, name, start, size, lost))
            if start:
                data[-100] ^= 1
            return bytes(data)

        monkeypatch.setattr(BackupStore, "_read", damaged)
        async with EmbeddedBroker(settings(server, "new")) as new:
            with pytest.raises(BackupFailed, match="is damaged: bring it back"):
                await restored(new.bootstrap_servers, server.address(BACKUP))

    asyncio.run(main())
