"""Tells a client which brokers there are, and which of them lead its partitions."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, String, TopicName, Uuid


class MetadataRequestTopic(Struct):
    """A topic to describe, by name or by id."""

    # KIP-516: when set, the name is null
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    name: TopicName | None = field(nullable_since=10)


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+", listeners=("broker",)):
    """Asks for some topics, for all (null) or for none (an empty list from version 1 on)."""

    # before version 1 an empty list means every topic
    topics: list[MetadataRequestTopic] | None = field(nullable_since=1)
    allow_auto_topic_creation: Bool = field(since=4, default=True)
    # KIP-700 moved it to DescribeCluster
    include_cluster_authorized_operations: Bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = field(since=8, default=False)


class MetadataResponseBroker(Struct):
    """A broker that is alive, and its address on the listener that was asked."""

    node_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(since=1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """Leader, replicas and in-sync replicas of one partition."""

    error_code: Int16
    partition_index: Int32
    leader_id: BrokerId
    # KIP-320
    leader_epoch: Int32 = field(since=7, default=-1, ignorable=True)
    replica_nodes: list[BrokerId]
    isr_nodes: list[BrokerId]
    offline_replicas: list[BrokerId] = field(since=5, default_factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    """One topic, or why it cannot be described."""

    error_code: Int16
    # null only when an unknown id was asked for
    name: TopicName | None = field(nullable_since=12, map_key=True)
    topic_id: Uuid = field(since=10, default=ZERO_UUID, ignorable=True)
    is_internal: Bool = field(since=1, default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    # KIP-430: a bit per operation; the default means "not asked for"
    topic_authorized_operations: Int32 = field(since=8, default=-(2**31))


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    """The cluster as this broker knows it: brokers, controller, topics and their leaders."""

    throttle_time_ms: Int32 = field(since=3, default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = field(since=2, default=None, ignorable=True)
    controller_id: BrokerId = field(since=1, default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=-(2**31))
    # KIP-1102: tells a client to bootstrap again
    error_code: Int16 = field(since=13, default=0, ignorable=True)
