"""What an admin does to partitions and features, on Apache Kafka and on moldau."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import (
    Admin,
    Downgrade,
    EligibleReplicas,
    NewTopic,
    Resource,
    ResourceType,
    Topic,
    TopicPartition,
)
from moldau.client.admin.partitions import Partitions
from moldau.client.sync import Admin as SyncAdmin
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid
from tests.conformance.broker import moldau as moldau
from tests.peers.either_broker import Broker, either
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker
from tests.peers.known_topics import known

pytestmark = pytest.mark.real


broker = either("kafka_broker", "moldau")


def test_leaders_and_directories(broker: Broker) -> None:
    where = TopicPartition("moved", 0)

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("moved", 1, 1))
            await known(admin, "moved")
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


def test_settings_are_tried_without_being_changed(broker: Broker) -> None:
    topic = Resource(ResourceType.TOPIC, "admin-tried")

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("admin-tried", 1, 1))
            await known(admin, "admin-tried")
            await admin.alter_configs(topic, set_to={"retention.ms": "5"}, validate_only=True)
            with pytest.raises(KafkaError) as caught:
                await admin.alter_configs(topic, set_to={"retention.ms": "x"}, validate_only=True)
            assert caught.value.code is ErrorCode.INVALID_CONFIG
            (entry,) = await admin.describe_configs(topic, names=["retention.ms"])
            assert entry.is_default

    asyncio.run(main())


def test_who_may_lead_is_told_page_by_page(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partitions, "page_partitions", 2)
    names = ("paged-a", "paged-b")

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for name in names:
                await admin.create_topic(NewTopic(name, 3, 1))
                await known(admin, name)
            found = await admin.eligible_replicas(*names)
            nobody = EligibleReplicas((), ())
            assert found == {TopicPartition(name, n): nobody for name in names for n in range(3)}
            assert found.items() <= (await admin.eligible_replicas()).items()
            with pytest.raises(KafkaError) as caught:
                await admin.eligible_replicas("no-such-topic")
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert caught.value.context == {"topic": "no-such-topic"}

    asyncio.run(main())


def test_a_topic_goes_by_its_id(broker: Broker) -> None:
    nobody = b"\x0b" * 16

    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            first = await admin.create_topic(NewTopic("by-id", 1, 1))
            await known(admin, "by-id")
            found = await admin.describe_topics_by_id([first.topic_id, nobody])
            described, unknown = found[first.topic_id], found[nobody]
            assert isinstance(described, Topic)
            assert (described.name, len(described.partitions)) == ("by-id", 1)
            assert isinstance(unknown, KafkaError)
            assert unknown.code is ErrorCode.UNKNOWN_TOPIC_ID
            assert unknown.context == {"topic_id": format_uuid(nobody)}
            await admin.delete_topic("by-id")
            second = await admin.create_topic(NewTopic("by-id", 1, 1))
            missed = (await admin.delete_topics_by_id([first.topic_id]))[first.topic_id]
            assert missed is not None
            assert missed.code is ErrorCode.UNKNOWN_TOPIC_ID
            assert await admin.delete_topics_by_id([second.topic_id]) == {second.topic_id: None}
            gone = (await admin.delete_topics(["by-id"]))["by-id"]
            assert gone is not None
            assert gone.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(main())


def test_a_changed_feature_is_seen_by_the_admin_that_changed_it(broker: Broker) -> None:
    with SyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:

        def level() -> int:
            return admin.describe_features().get("share.version", 0)

        first = level()
        assert first in (1, 2), "of Kafka 4.3, and of 4.4"
        admin.update_features({"share.version": 0}, downgrade=Downgrade.SAFE)
        eventually(lambda: level() == 0)
        admin.update_features({"share.version": first})
        eventually(lambda: level() == first)


def test_features_that_are_not_there(broker: Broker) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            levels = await admin.describe_features()
            assert levels["metadata.version"] >= 7
            supported = await admin.supported_features()
            assert supported.keys() >= levels.keys()
            for name, level in levels.items():
                assert supported[name][0] <= level <= supported[name][1], name
            with pytest.raises(KafkaError) as caught:
                await admin.update_features({"no.such.feature": 3}, dry_run=True)
            assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION

    asyncio.run(main())
