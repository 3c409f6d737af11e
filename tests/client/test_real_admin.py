"""What an admin does to partitions and features, on Apache Kafka and on moldau."""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from moldau.client import Admin, NewTopic, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from tests.conformance.broker import moldau as moldau
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real


class Broker(Protocol):
    """Any broker that runs."""

    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(params=["kafka_broker", "moldau"])
def broker(request: pytest.FixtureRequest) -> Broker:
    found: Broker = request.getfixturevalue(request.param)
    return found


def test_leaders_and_directories(broker: Broker) -> None:
    where = TopicPartition("moved", 0)

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("moved", 1, 1))
            (node,) = [each.node_id for each in (await admin.describe_cluster()).brokers]
            elected = (await admin.elect_leaders([where]))[where]
            assert elected is not None
            assert elected.code is ErrorCode.ELECTION_NOT_NEEDED
            (path,) = [each.path for each in await admin.describe_log_dirs()]
            assert await admin.alter_replica_log_dirs({(where, node): path}) == {
                (where, node): None
            }
            lost = (await admin.alter_replica_log_dirs({(where, node): "/nowhere"}))[where, node]
            assert lost is not None
            assert lost.code is ErrorCode.LOG_DIR_NOT_FOUND

    asyncio.run(main())


def test_partitions_move_among_brokers(kafka_broker: Broker) -> None:
    """On Apache Kafka alone: moldau does not serve reassignments yet."""
    where = TopicPartition("reassigned", 0)

    async def main() -> None:
        async with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("reassigned", 1, 1))
            (node,) = [each.node_id for each in (await admin.describe_cluster()).brokers]
            assert await admin.alter_partition_reassignments({where: [node]}) == {where: None}
            refused = (await admin.alter_partition_reassignments({where: [99]}))[where]
            assert refused is not None
            assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await admin.list_partition_reassignments() == {}

    asyncio.run(main())


def test_features_that_are_not_there(broker: Broker) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            levels = await admin.describe_features()
            assert levels["metadata.version"] >= 7
            with pytest.raises(KafkaError) as caught:
                await admin.update_features({"no.such.feature": 3}, dry_run=True)
            assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION

    asyncio.run(main())
