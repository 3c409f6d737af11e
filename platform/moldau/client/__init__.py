"""moldau's own client: `Producer`, `Consumer` and `Admin` on asyncio, against any Kafka.

    from moldau.client import Admin, Consumer, NewTopic, Producer

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        await (await producer.send("orders", b"value", key=b"key"))

How it is built, from the wire up: `moldau.link` (connections, and the cluster with its metadata),
then `producer` on the cores `accumulator`, `batches` and `outcomes`, `consumer` on the cores
`positions`, `topic_life` and `fetched` and on `group` (membership, offsets, rebalancing) with its
`assignors`, and `admin`. The cores do no IO, so a test hands them answers directly; the shells run
unchanged in the simulator. Settings have Kafka's names (`settings`).

Importing this package imports none of that: a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.client.admin import Admin
    from moldau.client.admin_cluster import (
        ActiveProducer,
        ClusterDescription,
        Downgrade,
        LogDir,
        LogDirReplica,
        Quorum,
        QuorumReplica,
    )
    from moldau.client.admin_configs import ConfigEntry, ConfigSource, Resource, ResourceType
    from moldau.client.admin_groups import OffsetsNotStored
    from moldau.client.admin_partitions import Election, EligibleReplicas, Reassignment
    from moldau.client.admin_progress import GroupProgress, PartitionProgress
    from moldau.client.admin_topics import CreatedTopic, NewTopic
    from moldau.client.consumer import Consumer
    from moldau.client.consumer_interceptors import ConsumerInterceptor
    from moldau.client.delivery import Deliveries, Delivery, Sent, SentRange
    from moldau.client.fetched import PartitionRecords, PolledRecord
    from moldau.client.fetched_origin import TimestampType
    from moldau.client.group.descriptions import GroupDescription, ListedGroup, MemberDescription
    from moldau.client.group.group_member import GroupMember
    from moldau.client.group.listener import RebalanceListener
    from moldau.client.group.member import GroupMetadata
    from moldau.client.group.offset_requests import OffsetAndMetadata
    from moldau.client.group.protocols import Assigned, Protocols
    from moldau.client.offsets import FoundOffset
    from moldau.client.options.admin import AdminOptions
    from moldau.client.options.consumer import ConsumerOptions
    from moldau.client.options.member import MemberOptions
    from moldau.client.options.producer import ProducerOptions
    from moldau.client.part_columns import BinaryColumn, HeadersColumn, PartitionColumns
    from moldau.client.partitioner import RecordPartitioner
    from moldau.client.producer import Producer
    from moldau.client.producer_record import (
        OnDelivery,
        ProducerInterceptor,
        ProducerRecord,
        SendOptions,
    )
    from moldau.client.records_out import ConsumerRecord
    from moldau.client.serdes.contract import DeserializationFailed, SerializationFailed
    from moldau.client.settings_file import load_settings
    from moldau.client.world import ClientNotStarted
    from moldau.errors import ConfigError, CorruptRecord, MoldauError
    from moldau.errors.codes import ErrorCode, KafkaError
    from moldau.link.lifetime import ClientClosed, WrongLoop
    from moldau.link.metadata import Broker, Partition, Topic, TopicPartition
    from moldau.protocol.acl_operations import AclOperation

# By name the module here that has it; with a dot before it one beside this package.
_HOMES = {
    "AclOperation": ".protocol.acl_operations",
    "ActiveProducer": "admin_cluster",
    "Admin": "admin",
    "AdminOptions": "options.admin",
    "Assigned": "group.protocols",
    "BinaryColumn": "part_columns",
    "Broker": ".link.metadata",
    "ClientClosed": ".link.lifetime",
    "ClientNotStarted": "world",
    "ClusterDescription": "admin_cluster",
    "ConfigEntry": "admin_configs",
    "ConfigError": ".errors",
    "ConfigSource": "admin_configs",
    "Consumer": "consumer",
    "ConsumerInterceptor": "consumer_interceptors",
    "ConsumerOptions": "options.consumer",
    "ConsumerRecord": "records_out",
    "CorruptRecord": ".errors",
    "CreatedTopic": "admin_topics",
    "Deliveries": "delivery",
    "Delivery": "delivery",
    "DeserializationFailed": "serdes.contract",
    "Downgrade": "admin_cluster",
    "Election": "admin_partitions",
    "EligibleReplicas": "admin_partitions",
    "ErrorCode": ".errors.codes",
    "FoundOffset": "offsets",
    "GroupDescription": "group.descriptions",
    "MemberDescription": "group.descriptions",
    "GroupMember": "group.group_member",
    "GroupMetadata": "group.member",
    "GroupProgress": "admin_progress",
    "HeadersColumn": "part_columns",
    "KafkaError": ".errors.codes",
    "ListedGroup": "group.descriptions",
    "LogDir": "admin_cluster",
    "LogDirReplica": "admin_cluster",
    "MemberOptions": "options.member",
    "MoldauError": ".errors",
    "NewTopic": "admin_topics",
    "OffsetAndMetadata": "group.offset_requests",
    "OffsetsNotStored": "admin_groups",
    "OnDelivery": "producer_record",
    "Partition": ".link.metadata",
    "PartitionColumns": "part_columns",
    "PartitionProgress": "admin_progress",
    "PartitionRecords": "fetched",
    "PolledRecord": "fetched",
    "Producer": "producer",
    "ProducerInterceptor": "producer_record",
    "ProducerOptions": "options.producer",
    "ProducerRecord": "producer_record",
    "Protocols": "group.protocols",
    "Quorum": "admin_cluster",
    "QuorumReplica": "admin_cluster",
    "Reassignment": "admin_partitions",
    "RebalanceListener": "group.listener",
    "RecordPartitioner": "partitioner",
    "Resource": "admin_configs",
    "ResourceType": "admin_configs",
    "SendOptions": "producer_record",
    "Sent": "delivery",
    "SentRange": "delivery",
    "SerializationFailed": "serdes.contract",
    "TimestampType": "fetched_origin",
    "Topic": ".link.metadata",
    "TopicPartition": ".link.metadata",
    "WrongLoop": ".link.lifetime",
    "load_settings": "settings_file",
}

__all__ = [
    "AclOperation",
    "ActiveProducer",
    "Admin",
    "AdminOptions",
    "Assigned",
    "BinaryColumn",
    "Broker",
    "ClientClosed",
    "ClientNotStarted",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigError",
    "ConfigSource",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerOptions",
    "ConsumerRecord",
    "CorruptRecord",
    "CreatedTopic",
    "Deliveries",
    "Delivery",
    "DeserializationFailed",
    "Downgrade",
    "Election",
    "EligibleReplicas",
    "ErrorCode",
    "FoundOffset",
    "GroupDescription",
    "GroupMember",
    "GroupMetadata",
    "GroupProgress",
    "HeadersColumn",
    "KafkaError",
    "ListedGroup",
    "LogDir",
    "LogDirReplica",
    "MemberDescription",
    "MemberOptions",
    "MoldauError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetsNotStored",
    "OnDelivery",
    "Partition",
    "PartitionColumns",
    "PartitionProgress",
    "PartitionRecords",
    "PolledRecord",
    "Producer",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerRecord",
    "Protocols",
    "Quorum",
    "QuorumReplica",
    "Reassignment",
    "RebalanceListener",
    "RecordPartitioner",
    "Resource",
    "ResourceType",
    "SendOptions",
    "Sent",
    "SentRange",
    "SerializationFailed",
    "TimestampType",
    "Topic",
    "TopicPartition",
    "WrongLoop",
    "load_settings",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)
