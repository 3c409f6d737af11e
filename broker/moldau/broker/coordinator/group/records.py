"""The records of each kind of groups, and how they change the table of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from moldau.broker.coordinator.group.contract import GroupKind
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from moldau.protocol.schemas.group_log import GroupMetadataKey, GroupMetadataValue
from moldau.protocol.schemas.share_group_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.protocol.declare import LogKey, LogValue

CLASSIC_KEYS: Final = (GroupMetadataKey,)
CONSUMER_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
SHARE_KEYS: Final = (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)


def replay_classic_record(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    """Apply the record of a classic group, which has only this one."""
    assert isinstance(key, GroupMetadataKey)
    assert value is None or isinstance(value, GroupMetadataValue)
    groups.replay_classic(key.group, value, now_ms)


def replay_consumer_record(
    groups: Groups, key: LogKey, value: LogValue | None, now_ms: int
) -> None:
    """Apply a record of a consumer group (KIP-848)."""
    replay_member_record(groups, GroupKind.CONSUMER, ConsumerGroupMetadataKey, key, value)


def replay_share_record(groups: Groups, key: LogKey, value: LogValue | None, now_ms: int) -> None:
    """Apply a record of a share group (KIP-932)."""
    replay_member_record(groups, GroupKind.SHARE, ShareGroupMetadataKey, key, value)


def replay_member_record(
    groups: Groups,
    kind: GroupKind,
    group_key: type[LogKey],
    key: LogKey,
    value: LogValue | None,
) -> None:
    """Apply a record of a group that has several: its own, with `group_key`, and those of its
    members. The tombstone of its own drops the group."""
    group_id = cast(Any, key).group_id
    group = groups.group_of_record(kind, group_id, is_deleted=value is None)
    if group is None:
        return
    group.replay(key, value)
    if value is None and type(key) is group_key:
        groups.drop_of_record(group)
