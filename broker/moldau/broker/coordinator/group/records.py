"""Which call a record of a consumer group (KIP-848) is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

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


def replay_consumer_record(groups: Groups, key: LogKey, value: LogValue | None) -> None:
    """Records of kinds that are not served here (share groups, streams groups) stay in the log."""
    group_id = getattr(key, "group_id", None)
    if type(key) not in _CONSUMER_KEYS or group_id is None:
        return
    group = groups.consumer_of_record(group_id, is_deleted=value is None)
    if group is None:
        return
    # The value's class is that of the key's type: the log was read, or written, by it.
    given = cast("Any", value)
    match key:
        case ConsumerGroupMetadataKey():
            group.replay_metadata(given)
            if value is None:
                groups.drop_consumer(group_id)
        case ConsumerGroupPartitionMetadataKey():
            group.replay_partition_metadata(given)
        case ConsumerGroupMemberMetadataKey():
            group.replay_member_metadata(key.member_id, given)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.replay_target_assignment_metadata(given)
        case ConsumerGroupTargetAssignmentMemberKey():
            group.replay_target_assignment_member(key.member_id, given)
        case ConsumerGroupCurrentMemberAssignmentKey():
            group.replay_current_member_assignment(key.member_id, given)
        case ConsumerGroupRegularExpressionKey():
            group.replay_regular_expression(key.regular_expression, given)


_CONSUMER_KEYS = frozenset(
    (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
    )
)
