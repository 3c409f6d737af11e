"""Google's and Azure's stores hold what S3 does: objects, a broker's segments, backups."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from moldau.broker.tiered.verification import check_logs, findings, stored_objects
from moldau.errors.codes import ErrorCode
from moldau.objects.object_store import StoreLimits
from moldau.objects.store_errors import StoreReason
from moldau.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.testing import EmbeddedBroker
from tests.backups import shop
from tests.backups.places import backed_up, restored
from tests.broker.server.houses import house
from tests.broker.tiered.cloud_servers import CloudServer
from tests.broker.tiered.faulty_proxy import Fault, FaultyProxy
from tests.broker.tiered.stores import MIB, on_runtime, pieces, refusal, whole
from tests.broker.tiered.tiered_house import (
    VALUE,
    finished_ranges,
    is_cut,
    read_whole,
    remote_of,
    until,
)
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_a_server_is_a_store(cloud: CloudServer) -> None:
    on_runtime(lambda runtime: whole(cloud.store(runtime, uuid4().hex)))


def test_a_list_goes_on_behind_its_last_name(cloud: CloudServer) -> None:
    names = [f"n/{number:03d}" for number in range(30)]

    async def main(runtime: Runtime) -> list[str]:
        store = cloud.store(runtime, uuid4().hex)
        for name in names:
            await store.put(name, b"x")
        found = [each.name for each in await store._bucket.list("n", "n/019")]
        assert [each.name async for each in store.list("n")] == names
        return found

    assert on_runtime(main) == names[20:]


def test_a_missing_bucket_is_named(cloud: CloudServer) -> None:
    error = on_runtime(
        lambda runtime: refusal(cloud.store(runtime, "p", bucket="there-is-none-of-it"))
    )
    assert error.why is StoreReason.NO_BUCKET


def test_a_key_that_is_not_the_accounts_is_named(
    azurite: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    azurite.use_credentials(monkeypatch)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "bm90aGluZw==")
    error = on_runtime(lambda runtime: refusal(azurite.store(runtime, "p")))
    assert error.why in (StoreReason.NO_CREDENTIALS, StoreReason.NO_RIGHTS)


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.LOST, Fault.CUT])
def test_puts_and_reads_get_over_faults(cloud: CloudServer, fault: Fault) -> None:
    content = bytes(range(256)) * (6 * MIB // 256)

    async def main(runtime: Runtime) -> None:
        async with FaultyProxy(cloud.port) as proxy:
            limits = StoreLimits(attempt_s=5, deadline_s=60, backoff=Backoff(1, 20))
            store = cloud._replace(port=proxy.port).store(runtime, uuid4().hex, limits=limits)
            proxy.faults.append(fault)
            await store.put("a", b"0123456789")
            proxy.faults.append(fault)
            await store.put_parts("b", lambda: pieces(content, MIB), len(content))
            proxy.faults.append(fault)
            assert bytes(await store.get_range("b", 5 * MIB, MIB)) == content[5 * MIB :]
            assert bytes(await store.get_range("a", 2, 3)) == b"234"
            assert not proxy.faults
            assert sum(store.counts.failures.values()) >= 1

    on_runtime(main)


def test_segments_go_there_and_are_read_verified_and_removed(cloud: CloudServer) -> None:
    prefix = uuid4().hex

    async def main(runtime: Runtime) -> None:
        given = {**SETTINGS, **cloud.settings(prefix)}
        async with house(runtime) as home, home.open(**given) as (broker, wire):
            assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
            for number in range(40):
                await wire.produce("t", [VALUE + str(number).encode()])
            await until(lambda: is_cut(broker, "t"))
            assert [int(each[len(VALUE) :]) for each in await read_whole(wire, "t")] == [*range(40)]
            topic_id, store = await wire.topic_id("t"), cloud.store(runtime, prefix)
            stored = await stored_objects(store, "t", topic_id)
            remote = remote_of(broker, topic_id)
            assert len(stored) == 2 * len(finished_ranges(remote)) > 0
            assert findings(remote, 0, stored) == []
            assert (await check_logs(store, remote, stored, None)).found == []
            lost = sorted(stored)[0]
            await store.delete(lost)
            left = await stored_objects(store, "t", topic_id)
            assert [each.name for each in findings(remote, 0, left)] == [lost]
            assert not home.complaints()
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name="t",
                        partitions=[DeleteRecordsPartition(partition_index=0, offset=40)],
                    )
                ],
                timeout_ms=30_000,
            )
            await wire.ask(request, DeleteRecordsResponse)
            await until(lambda: not len(remote_of(broker, topic_id)))
            assert await stored_objects(store, "t", topic_id) == {}

    on_runtime(main)


def test_a_backup_there_comes_back(cloud: CloudServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is found by the variable of the cloud's SDK, as a command has no setting."""
    monkeypatch.setenv(cloud.endpoint_variable, cloud.url)
    place = cloud.address(uuid4().hex)

    async def main() -> None:
        async with EmbeddedBroker(shop.SETTINGS) as old:
            await shop.fill(old.bootstrap_servers)
            first = await backed_up(old.bootstrap_servers, place)
            assert (await backed_up(old.bootstrap_servers, place)).new_chunks == 0
            logs = await shop.logs(old.bootstrap_servers)
        assert first.new_chunks > 0
        async with EmbeddedBroker(shop.AS_IT_IS) as new:
            await restored(new.bootstrap_servers, place)
            assert await shop.logs(new.bootstrap_servers) == logs

    asyncio.run(main())
