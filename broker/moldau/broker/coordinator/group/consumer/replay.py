"""Apply the records of a consumer group to its state."""

from __future__ import annotations

from typing import Any, cast

from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def replay(state: ConsumerGroupState, key: LogKey, value: LogValue | None) -> None:
    """Apply one record."""
    # The value's class belongs to the key's class: the log was read, or written, with that key.
    given = cast("Any", value)
    match key:
        case ConsumerGroupMetadataKey():
            state.replay_metadata(given)
        case ConsumerGroupPartitionMetadataKey():
            state.replay_partition_metadata(given)
        case ConsumerGroupMemberMetadataKey():
            state.replay_member_metadata(key.member_id, given)
        case ConsumerGroupTargetAssignmentMetadataKey():
            state.replay_target_assignment_metadata(given)
        case ConsumerGroupTargetAssignmentMemberKey():
            state.replay_target_assignment_member(key.member_id, given)
        case ConsumerGroupCurrentMemberAssignmentKey():
            state.replay_current_member_assignment(key.member_id, given)
        case ConsumerGroupRegularExpressionKey():
            state.replay_regular_expression(key.regular_expression, given)
        case other:
            raise AssertionError(f"{type(other).__name__} is no record of a consumer group")
