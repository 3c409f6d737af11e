"""All APIs by key, in a table of names, so that a look-up imports one module and not 89.

A module has an API's request, its response and their structs. Invariant: the table, the modules and
the declared keys agree (tests/protocol/test_messages_index.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from moldau.protocol.declare import Request, Response


class ApiEntry(NamedTuple):
    """An API: its key on the wire, its name, and the module of this package that declares it."""

    key: int
    name: str
    module: str


_TABLE: Final = (
    (0, "Produce", "produce"),
    (1, "Fetch", "fetch"),
    (2, "ListOffsets", "list_offsets"),
    (3, "Metadata", "metadata"),
    (8, "OffsetCommit", "offset_commit"),
    (9, "OffsetFetch", "offset_fetch"),
    (10, "FindCoordinator", "find_coordinator"),
    (11, "JoinGroup", "join_group"),
    (12, "Heartbeat", "heartbeat"),
    (13, "LeaveGroup", "leave_group"),
    (14, "SyncGroup", "sync_group"),
    (15, "DescribeGroups", "describe_groups"),
    (16, "ListGroups", "list_groups"),
    (17, "SaslHandshake", "sasl_handshake"),
    (18, "ApiVersions", "api_versions"),
    (19, "CreateTopics", "create_topics"),
    (20, "DeleteTopics", "delete_topics"),
    (21, "DeleteRecords", "delete_records"),
    (22, "InitProducerId", "init_producer_id"),
    (23, "OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    (24, "AddPartitionsToTxn", "add_partitions_to_txn"),
    (25, "AddOffsetsToTxn", "add_offsets_to_txn"),
    (26, "EndTxn", "end_txn"),
    (27, "WriteTxnMarkers", "write_txn_markers"),
    (28, "TxnOffsetCommit", "txn_offset_commit"),
    (29, "DescribeAcls", "describe_acls"),
    (30, "CreateAcls", "create_acls"),
    (31, "DeleteAcls", "delete_acls"),
    (32, "DescribeConfigs", "describe_configs"),
    (33, "AlterConfigs", "alter_configs"),
    (34, "AlterReplicaLogDirs", "alter_replica_log_dirs"),
    (35, "DescribeLogDirs", "describe_log_dirs"),
    (36, "SaslAuthenticate", "sasl_authenticate"),
    (37, "CreatePartitions", "create_partitions"),
    (38, "CreateDelegationToken", "create_delegation_token"),
    (39, "RenewDelegationToken", "renew_delegation_token"),
    (40, "ExpireDelegationToken", "expire_delegation_token"),
    (41, "DescribeDelegationToken", "describe_delegation_token"),
    (42, "DeleteGroups", "delete_groups"),
    (43, "ElectLeaders", "elect_leaders"),
    (44, "IncrementalAlterConfigs", "incremental_alter_configs"),
    (45, "AlterPartitionReassignments", "alter_partition_reassignments"),
    (46, "ListPartitionReassignments", "list_partition_reassignments"),
    (47, "OffsetDelete", "offset_delete"),
    (48, "DescribeClientQuotas", "describe_client_quotas"),
    (49, "AlterClientQuotas", "alter_client_quotas"),
    (50, "DescribeUserScramCredentials", "describe_user_scram_credentials"),
    (51, "AlterUserScramCredentials", "alter_user_scram_credentials"),
    (52, "Vote", "vote"),
    (53, "BeginQuorumEpoch", "begin_quorum_epoch"),
    (54, "EndQuorumEpoch", "end_quorum_epoch"),
    (55, "DescribeQuorum", "describe_quorum"),
    (56, "AlterPartition", "alter_partition"),
    (57, "UpdateFeatures", "update_features"),
    (58, "Envelope", "envelope"),
    (59, "FetchSnapshot", "fetch_snapshot"),
    (60, "DescribeCluster", "describe_cluster"),
    (61, "DescribeProducers", "describe_producers"),
    (62, "BrokerRegistration", "broker_registration"),
    (63, "BrokerHeartbeat", "broker_heartbeat"),
    (64, "UnregisterBroker", "unregister_broker"),
    (65, "DescribeTransactions", "describe_transactions"),
    (66, "ListTransactions", "list_transactions"),
    (67, "AllocateProducerIds", "allocate_producer_ids"),
    (68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
    (69, "ConsumerGroupDescribe", "consumer_group_describe"),
    (70, "ControllerRegistration", "controller_registration"),
    (71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions"),
    (72, "PushTelemetry", "push_telemetry"),
    (73, "AssignReplicasToDirs", "assign_replicas_to_dirs"),
    (74, "ListConfigResources", "list_config_resources"),
    (75, "DescribeTopicPartitions", "describe_topic_partitions"),
    (76, "ShareGroupHeartbeat", "share_group_heartbeat"),
    (77, "ShareGroupDescribe", "share_group_describe"),
    (78, "ShareFetch", "share_fetch"),
    (79, "ShareAcknowledge", "share_acknowledge"),
    (80, "AddRaftVoter", "add_raft_voter"),
    (81, "RemoveRaftVoter", "remove_raft_voter"),
    (82, "UpdateRaftVoter", "update_raft_voter"),
    (83, "InitializeShareGroupState", "initialize_share_group_state"),
    (84, "ReadShareGroupState", "read_share_group_state"),
    (85, "WriteShareGroupState", "write_share_group_state"),
    (86, "DeleteShareGroupState", "delete_share_group_state"),
    (87, "ReadShareGroupStateSummary", "read_share_group_state_summary"),
    (88, "StreamsGroupHeartbeat", "streams_group_heartbeat"),
    (89, "StreamsGroupDescribe", "streams_group_describe"),
    (90, "DescribeShareGroupOffsets", "describe_share_group_offsets"),
    (91, "AlterShareGroupOffsets", "alter_share_group_offsets"),
    (92, "DeleteShareGroupOffsets", "delete_share_group_offsets"),
    (
        93,
        "StreamsGroupTopologyDescriptionUpdate",
        "streams_group_topology_description_update",
    ),
    (94, "UnregisterController", "unregister_controller"),
)

API: Final[Mapping[int, ApiEntry]] = MappingProxyType(
    {key: ApiEntry(key, name, module) for key, name, module in _TABLE}
)

OWN: Final[Mapping[int, ApiEntry]] = MappingProxyType(
    {
        20001: ApiEntry(20001, "RestoreTopic", "restore_topic"),
        20002: ApiEntry(20002, "RestoreRecords", "restore_records"),
        20003: ApiEntry(20003, "CopySegments", "copy_segments"),
    }
)
"""The APIs that Kafka does not have. Only moldau's own clients are told of them."""


def api_of(message: Request | Response) -> str:
    """Return the name of the API of a request or a response."""
    key = type(message).spec.key
    assert key is not None, "a request and a response have the key of their API"
    return api(key).name


# Kafka 4.0 removed these APIs with ZooKeeper mode; the keys stay reserved and have no versions.
RESERVED: Final[Mapping[int, str]] = MappingProxyType(
    {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}
)


@cache
def api(key_or_name: int | str) -> ApiEntry:
    """Return the entry of an API by key or by name (`"Fetch"`). Raise KeyError if there is none."""
    if isinstance(key_or_name, int):
        return API[key_or_name] if key_or_name in API else OWN[key_or_name]
    for entry in (*API.values(), *OWN.values()):
        if entry.name == key_or_name:
            return entry
    raise KeyError(key_or_name)


@cache
def request_class(key_or_name: int | str) -> type[Request]:
    """Return the request class of an API by key or name; import its module on first use."""
    return cast("type[Request]", _class(api(key_or_name), "Request"))


@cache
def response_class(key_or_name: int | str) -> type[Response]:
    """Return the response class of an API by key or name; import its module on first use."""
    return cast("type[Response]", _class(api(key_or_name), "Response"))


def _class(entry: ApiEntry, suffix: str) -> Any:
    return getattr(import_module(f"{__name__}.{entry.module}"), entry.name + suffix)
