"""Which records are of a consumer group (KIP-848), and what they do to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.protocol.declare import LogKey, LogValue


_CONSUMER_KEYS = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def replay_consumer_record(groups: Groups, key: LogKey, value: LogValue | None) -> None:
    """Records of kinds that are not served here (share groups, streams groups) stay in the log."""
    if not isinstance(key, _CONSUMER_KEYS):
        return
    group = groups.consumer_of_record(key.group_id, is_deleted=value is None)
    if group is None:
        return
    group.replay(key, value)
    if value is None and type(key) is ConsumerGroupMetadataKey:
        groups.drop_consumer(group)
