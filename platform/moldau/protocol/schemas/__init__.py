"""Record and data schemas by name: headers, control records, records of the logs, files.

Importing this package imports none of them. `coordinator_log` and `framed_log` find a class by the
type in a record, and encode and decode its bytes; `versioned` does so for messages that have only a
version in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from moldau.errors import MalformedMessage

if TYPE_CHECKING:
    from moldau.protocol.declare import Message

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "broker_log": (
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "BrokerRegistrationChangeRecord",
        "RegisterControllerRecord",
        "UnregisterControllerRecord",
    ),
    "consumer_group_log": (
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupPartitionMetadataValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
    ),
    "consumer_protocol": (
        "ConsumerProtocolSubscription",
        "ConsumerProtocolAssignment",
    ),
    "control_records": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "KRaftVersionRecord",
        "VotersRecord",
    ),
    "group_log": (
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
    ),
    "headers": (
        "RequestHeader",
        "ResponseHeader",
    ),
    "metadata_log": (
        "TopicRecord",
        "RemoveTopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "ConfigRecord",
        "FeatureLevelRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "AccessControlEntryRecord",
        "RemoveAccessControlEntryRecord",
        "UserScramCredentialRecord",
        "RemoveUserScramCredentialRecord",
        "DelegationTokenRecord",
        "RemoveDelegationTokenRecord",
        "NoOpRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
        "ClearElrRecord",
        "ZkMigrationStateRecord",
    ),
    "principal": ("DefaultPrincipalData",),
    "raft": ("QuorumStateData",),
    "share_group_log": (
        "ShareGroupMetadataKey",
        "ShareGroupMetadataValue",
        "ShareGroupMemberMetadataKey",
        "ShareGroupMemberMetadataValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
    ),
    "share_log": (
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
    ),
    "storage": (
        "ProducerSnapshot",
        "RemoteLogSegmentMetadataRecord",
        "RemoteLogSegmentMetadataUpdateRecord",
        "RemotePartitionDeleteMetadataRecord",
        "RemoteLogSegmentMetadataSnapshotRecord",
    ),
    "streams": ("SubscriptionInfoData",),
    "streams_group_log": (
        "StreamsGroupMetadataKey",
        "StreamsGroupMetadataValue",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupMemberMetadataValue",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue",
        "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue",
        "StreamsGroupTopologyKey",
        "StreamsGroupTopologyValue",
    ),
    "transaction_log": (
        "TransactionLogKey",
        "TransactionLogValue",
    ),
}


class UnknownRecordType(MalformedMessage):
    """A record of a type without a schema: a newer version wrote it, or it is not a record."""


def schema_names() -> Iterator[str]:
    """Yield the name of every schema in this package."""
    for names in _MODULES.values():
        yield from names


@cache
def schema_class(name: str) -> type[Message]:
    """Return a schema's class by name; import its module on first use. Raise KeyError if
    unknown."""
    for module, names in _MODULES.items():
        if name in names:
            return cast("type[Message]", getattr(import_module(f"{__name__}.{module}"), name))
    raise KeyError(name)
