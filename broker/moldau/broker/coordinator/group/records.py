"""The records of consumer groups (KIP-848), and how they change the table of groups."""

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
    """Apply a record of a consumer group. Records of other kinds (share groups, streams groups) are
    ignored; they stay in the log."""
    if not isinstance(key, _CONSUMER_KEYS):
        return
    group = groups.consumer_of_record(key.group_id, is_deleted=value is None)
    if group is None:
        return
    group.replay(key, value)
    if value is None and type(key) is ConsumerGroupMetadataKey:
        groups.drop_consumer(group)
