"""Which change of the state a record of a consumer group is."""

from __future__ import annotations

from typing import Any, cast

from moldau.broker.coordinator.group.consumer.state import State
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)


def replay(state: State, record: LogRecord) -> None:
    """Apply it. The value is of the class that belongs to the key."""
    value = cast("Any", record.value)
    match record.key:
        case ConsumerGroupMetadataKey():
            state.replay_metadata(value)
        case ConsumerGroupPartitionMetadataKey():
            state.replay_partition_metadata(value)
        case ConsumerGroupMemberMetadataKey() as key:
            state.replay_member_metadata(key.member_id, value)
        case ConsumerGroupTargetAssignmentMetadataKey():
            state.replay_target_assignment_metadata(value)
        case ConsumerGroupTargetAssignmentMemberKey() as key:
            state.replay_target_assignment_member(key.member_id, value)
        case ConsumerGroupCurrentMemberAssignmentKey() as key:
            state.replay_current_member_assignment(key.member_id, value)
        case ConsumerGroupRegularExpressionKey() as key:
            state.replay_regular_expression(key.regular_expression, value)
        case other:
            raise AssertionError(f"{type(other).__name__} is no record of a consumer group")
