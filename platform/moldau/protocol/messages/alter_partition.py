"""A leader asks the controller to change its in-sync replicas (KIP-497)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int8, Int16, Int32, Int64, Uuid


class BrokerState(Struct):
    """A replica and the epoch that its broker registered with (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)


class AlterPartitionRequestPartitionData(Struct, schema_name="PartitionData"):
    """The wanted state of one partition."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[BrokerId] = field(until=2, default_factory=list)
    # KIP-903: a restarted broker cannot slip back in under its old epoch
    new_isr_with_epochs: list[BrokerState] = field(since=3, default_factory=list)
    # KIP-704: 1 while the leader of an unclean election still recovers
    leader_recovery_state: Int8 = field(default=0)
    partition_epoch: Int32


class AlterPartitionRequestTopicData(Struct, schema_name="TopicData"):
    """One topic and its partitions."""

    topic_id: Uuid = field(ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(
    Request, key=56, versions="2-3", flexible="0+", listeners=("controller",)
):
    """The new in-sync replicas, guarded by leader epoch and partition epoch."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct, schema_name="PartitionData"):
    """The state of one partition after the change."""

    partition_index: Int32
    error_code: Int16
    leader_id: BrokerId
    leader_epoch: Int32
    isr: list[BrokerId]
    # KIP-704: 1 while the leader of an unclean election still recovers
    leader_recovery_state: Int8 = field(default=0, ignorable=True)
    partition_epoch: Int32


class AlterPartitionResponseTopicData(Struct, schema_name="TopicData"):
    """One topic of the answer and its partitions."""

    topic_id: Uuid = field(ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


class AlterPartitionResponse(Response, key=56, versions="2-3", flexible="0+"):
    """The partition as it now stands, or why nothing changed."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    topics: list[AlterPartitionResponseTopicData]
