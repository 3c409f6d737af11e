"""What a broker refuses of a restore, and of others while a topic is being restored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.client import Admin, NewTopic, Producer
from moldau.client.admin.configs import Resource, ResourceType
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import CONTROLLER
from moldau.protocol.api_versions import SOFTWARE, Welcome
from moldau.protocol.messages import OWN
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.restore_records import (
    RestoreRecordsRequest,
    RestoreRecordsResponse,
)
from moldau.protocol.messages.restore_topic import (
    RESTORING,
    RestoreTopicRequest,
    RestoreTopicResponse,
)
from moldau.protocol.negotiation import advertised_versions, own_versions
from moldau.records import encode_batch, stamp
from moldau.testing import EmbeddedBroker

ID = bytes(range(16))
EPOCH = 4


def batch(offset: int, epoch: int = 0) -> bytearray:
    data = encode_batch([(5, None, b"value", ())])
    stamp(data, offset, epoch)
    return data


class Target:
    """A broker and its topic `t`, which is being restored from offset 100 on."""

    def __init__(self, admin: Admin, address: str) -> None:
        self.admin = admin
        self.address = address

    async def make(self, name: str = "t", topic_id: bytes = ID) -> RestoreTopicResponse:
        request = RestoreTopicRequest(
            name=name,
            topic_id=topic_id,
            replication_factor=1,
            leader_epochs=[EPOCH],
            configs=[],
            producer_id_end=0,
            backup="backup",
            timeout_ms=5000,
        )
        return await self.admin._cluster.call(request, RestoreTopicResponse, node_id=CONTROLLER)

    async def send(
        self, records: bytearray | None, log_end_offset: int = 100, **more: Any
    ) -> RestoreRecordsResponse:
        fields: dict[str, Any] = {"name": "t", "topic_id": ID, "log_start_offset": 100, **more}
        request = RestoreRecordsRequest(
            partition_index=0,
            log_end_offset=log_end_offset,
            start_offset=100,
            records=records,
            timeout_ms=5000,
            **fields,
        )
        return await self.admin._cluster.call(request, RestoreRecordsResponse)


@asynccontextmanager
async def target(settings: dict[str, str] | None = None) -> AsyncIterator[Target]:
    async with (
        EmbeddedBroker(settings or {}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        yield Target(admin, broker.bootstrap_servers)


@pytest.mark.real
def test_batches_go_where_the_log_ends_and_nowhere_else() -> None:
    async def main() -> None:
        async with target() as at:
            assert (await at.make()).is_restoring
            assert (await at.send(None)).log_end_offset == 100
            first = await at.send(batch(105) + batch(108))
            assert (first.error_code, first.log_end_offset, first.high_watermark) == (0, 109, 109)
            again = await at.send(batch(105) + batch(108))
            assert again.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert again.log_end_offset == 109
            back = await at.send(batch(107), 109)
            assert back.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            torn = batch(110)
            torn[-1] ^= 1
            assert (await at.send(torn, 109)).error_code == ErrorCode.CORRUPT_MESSAGE
            late = await at.send(batch(110, EPOCH), 109)
            assert late.error_code == ErrorCode.INVALID_RECORD
            other = await at.send(batch(110), 109, topic_id=bytes(16))
            assert other.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
            raised = await at.send(None, log_start_offset=107)
            assert (raised.log_start_offset, raised.log_end_offset) == (107, 109)

    asyncio.run(main())


@pytest.mark.real
def test_a_topic_takes_a_restore_or_producers_and_only_a_restore_begins_one() -> None:
    async def main() -> None:
        async with target() as at:
            mine = Resource(ResourceType.TOPIC, "mine")
            await at.admin.create_topic(NewTopic("mine", partitions=1))
            with pytest.raises(KafkaError) as set_by_hand:
                await at.admin.alter_configs(mine, set_to={RESTORING: "true"})
            assert set_by_hand.value.code is ErrorCode.INVALID_CONFIG
            (topic,) = await at.admin.list_topics()
            refused = await at.send(batch(100), 0, name="mine", topic_id=topic.topic_id)
            assert refused.error_code == ErrorCode.POLICY_VIOLATION
            assert (await at.make("mine")).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            await at.make()
            assert RESTORING not in {
                each.name
                for each in await at.admin.describe_configs(Resource(ResourceType.TOPIC, "t"))
            }
            async with Producer(bootstrap_servers=at.address) as producer:
                with pytest.raises(KafkaError) as early:
                    await producer.send_and_wait("t", b"early")
                assert early.value.code is ErrorCode.POLICY_VIOLATION
                await at.send(batch(100))
                await at.admin.alter_configs(Resource(ResourceType.TOPIC, "t"), unset=[RESTORING])
                assert not (await at.make()).is_restoring
                done = await at.send(batch(101), 101)
                assert done.error_code == ErrorCode.POLICY_VIOLATION
            async with Producer(bootstrap_servers=at.address) as producer:
                assert (await producer.send_and_wait("t", b"later")).offset == 101

    asyncio.run(main())


@pytest.mark.real
def test_a_restore_takes_the_right_to_alter_the_cluster() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

    async def main() -> None:
        async with target({"authorizer.class.name": name}) as at:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert (await at.make()).error_code == code
            assert (await at.send(None)).error_code == code

    asyncio.run(main())


def test_only_clients_of_this_house_are_told_of_its_own_apis() -> None:
    welcome = Welcome(advertised_versions("broker"), {}, own_versions("broker"))

    def keys(software: str) -> set[int]:
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        return {each.api_key for each in welcome.answer(request, 4).api_keys}

    assert keys(SOFTWARE) - keys("librdkafka") == set(OWN)
    old = welcome.answer(ApiVersionsRequest(client_software_name=SOFTWARE), 0)
    assert {each.api_key for each in old.api_keys}.isdisjoint(OWN)
