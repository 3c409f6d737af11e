"""The records of `__cluster_metadata` about topics, settings, rights and the log itself.

Those about brokers and controllers are in `broker_log`. A record's value is framed: unsigned
varints for frame version, type and version, then the message (`framed_log`). Every message is
flexible in every version.
"""

from __future__ import annotations

from moldau.protocol.declare import MetadataRecord, Struct, field
from moldau.protocol.types import (
    Bool,
    BrokerId,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    TopicName,
    Uuid,
)


class TopicRecord(MetadataRecord, type=2, versions="0", flexible="0+"):
    """A topic came to be."""

    name: TopicName
    topic_id: Uuid


class RemoveTopicRecord(MetadataRecord, type=9, versions="0", flexible="0+"):
    """A topic is gone, with all its partitions."""

    topic_id: Uuid


class PartitionRecord(MetadataRecord, type=3, versions="0-2", flexible="0+"):
    """The whole state of a partition: at its creation, and in snapshots."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[BrokerId]
    isr: list[Int32]
    removing_replicas: list[BrokerId]
    adding_replicas: list[BrokerId]
    leader: BrokerId = field(default=-1)
    # KIP-704: 1 while the leader of an unclean election still recovers
    leader_recovery_state: Int8 = field(tag=0, default=0)
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    # KIP-858: the log directory of each replica, in the order of `replicas`
    directories: list[Uuid] = field(since=1, default_factory=list)
    # KIP-966: replicas that left the ISR with all committed data
    eligible_leader_replicas: list[BrokerId] | None = field(since=2, tag=1, default=None)
    last_known_elr: list[BrokerId] | None = field(since=2, tag=2, default=None)


class PartitionChangeRecord(MetadataRecord, type=5, versions="0-2", flexible="0+"):
    """What changed in a partition; a field at its default has not changed."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    isr: list[BrokerId] | None = field(tag=0, default=None)
    # -2 no change, -1 no leader
    leader: BrokerId = field(tag=1, default=-2)
    replicas: list[BrokerId] | None = field(tag=2, default=None)
    removing_replicas: list[BrokerId] | None = field(tag=3, default=None)
    adding_replicas: list[BrokerId] | None = field(tag=4, default=None)
    # KIP-704: -1 no change
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    # KIP-858: the log directory of each replica, in the order of `replicas`
    directories: list[Uuid] | None = field(since=1, tag=8, default=None)
    # KIP-966: replicas that left the ISR with all committed data
    eligible_leader_replicas: list[BrokerId] | None = field(since=2, tag=6, default=None)
    last_known_elr: list[BrokerId] | None = field(since=2, tag=7, default=None)


class ConfigRecord(MetadataRecord, type=4, versions="0", flexible="0+"):
    """A setting of a resource was set, or (null) removed."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


class FeatureLevelRecord(MetadataRecord, type=12, versions="0", flexible="0+"):
    """A feature was finalized at a level, metadata.version among them."""

    name: String
    feature_level: Int16


class EntityData(Struct):
    """One part of the entity; a null name is the default for its type."""

    entity_type: String
    entity_name: String | None


class ClientQuotaRecord(MetadataRecord, type=14, versions="0", flexible="0+"):
    """A quota of an entity was set or removed."""

    entity: list[EntityData]
    key: String
    value: Float64
    remove: Bool


class ProducerIdsRecord(MetadataRecord, type=15, versions="0", flexible="0+"):
    """A broker got a block of producer ids; the next block starts at `next_producer_id`."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64


class AccessControlEntryRecord(MetadataRecord, type=18, versions="0", flexible="0+"):
    """An access rule was added, under an id of its own."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(MetadataRecord, type=19, versions="0", flexible="0+"):
    """The access rule of that id is gone."""

    id: Uuid


class UserScramCredentialRecord(MetadataRecord, type=11, versions="0", flexible="0+"):
    """A user's SCRAM credential was set; it holds derived keys, no password."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


class RemoveUserScramCredentialRecord(MetadataRecord, type=22, versions="0", flexible="0+"):
    """A user's SCRAM credential is gone."""

    name: String
    mechanism: Int8


class DelegationTokenRecord(MetadataRecord, type=10, versions="0", flexible="0+"):
    """A delegation token was made or renewed."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class RemoveDelegationTokenRecord(MetadataRecord, type=26, versions="0", flexible="0+"):
    """A delegation token is gone."""

    token_id: String


class NoOpRecord(MetadataRecord, type=20, versions="0", flexible="0+"):
    """Nothing happened; keeps the log moving, so that brokers can tell that they are current."""


class BeginTransactionRecord(MetadataRecord, type=23, versions="0", flexible="0+"):
    """Opens a group of records that take effect together (KIP-868)."""

    name: String | None = field(tag=0, default=None)


class EndTransactionRecord(MetadataRecord, type=24, versions="0", flexible="0+"):
    """Closes the group: its records take effect."""


class AbortTransactionRecord(MetadataRecord, type=25, versions="0", flexible="0+"):
    """Drops the group: its records never happened."""

    reason: String | None = field(tag=0, default=None)


class ClearElrRecord(MetadataRecord, type=28, versions="0", flexible="0+"):
    """Empties the eligible leader replicas of a topic, or of all topics (KIP-966)."""

    topic_name: TopicName


class ZkMigrationStateRecord(MetadataRecord, type=21, versions="0", flexible="0+"):
    """How far a cluster that once ran on ZooKeeper had come with leaving it."""

    zk_migration_state: Int8
