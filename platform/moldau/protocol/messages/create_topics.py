"""Creates topics, with a count of partitions or with replicas placed by hand."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int8, Int16, Int32, String, TopicName, Uuid


class CreatableReplicaAssignment(Struct):
    """Which brokers hold one partition; the first one is the preferred leader."""

    partition_index: Int32 = field(map_key=True)
    broker_ids: list[BrokerId]


class CreatableTopicConfig(Struct):
    """A setting that the topic starts with."""

    name: String = field(map_key=True)
    value: String | None


class CreatableTopic(Struct):
    """One topic to create."""

    name: TopicName = field(map_key=True)
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(
    Request, key=19, versions="2-7", flexible="5+", listeners=("broker", "controller")
):
    """The topics to create; -1 counts mean the broker's defaults."""

    topics: list[CreatableTopic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field(default=False)


class CreatableTopicConfigs(Struct):
    """A setting of the created topic, as it is in force."""

    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = field(default=-1, ignorable=True)
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    """The outcome for one topic."""

    name: TopicName = field(map_key=True)
    # KIP-516
    topic_id: Uuid = field(since=7, default=ZERO_UUID, ignorable=True)
    error_code: Int16
    error_message: String | None = field(ignorable=True)
    topic_config_error_code: Int16 = field(since=5, tag=0, default=0, ignorable=True)
    # KIP-525: the answer describes what was made
    num_partitions: Int32 = field(since=5, default=-1, ignorable=True)
    replication_factor: Int16 = field(since=5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        since=5, default_factory=list, ignorable=True
    )


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    """What came of each topic, with its id and (version 5) its settings."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    topics: list[CreatableTopicResult]
