"""The offsets of a classic group: which commits and deletions are allowed, and when they expire.

Only members of the current generation may commit, and not while the leader computes the assignment.
An empty group accepts commits without a generation from any client: from admin tools, and from
consumers that assign their partitions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic.protocols import CONSUMER
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership

_OCCUPIED = (
    ClassicGroupState.PREPARING_REBALANCE,
    ClassicGroupState.COMPLETING_REBALANCE,
    ClassicGroupState.STABLE,
)


def check_commit(
    group: Membership,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    *,
    is_txn: bool,
) -> None:
    """Raise KafkaError if this member in this generation may not commit. Transactions of old
    clients name no member; only their producer epoch fences them."""
    if generation_id < 0 and group.state is ClassicGroupState.EMPTY:
        return
    if generation_id >= 0 or member_id or instance_id is not None:
        group.check_member(member_id, instance_id)
        if generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    elif not is_txn:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not is_txn and group.state is ClassicGroupState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def on_commit(group: Membership, member_id: str, now_ms: int) -> None:
    """Restart the member's session, because a commit shows that the member is alive. Do nothing
    while the leader assigns."""
    member = group.members.get(member_id)
    if member is not None and group.state in (
        ClassicGroupState.STABLE,
        ClassicGroupState.PREPARING_REBALANCE,
    ):
        group.restart_session(member, now_ms)


def check_delete(group: Membership) -> None:
    """Raise NON_EMPTY_GROUP if the group has members."""
    if group.state in _OCCUPIED:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def check_offset_delete(group: Membership) -> None:
    """Raise NON_EMPTY_GROUP for a group with members whose subscriptions the broker cannot read."""
    if group.state in _OCCUPIED and group.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def is_subscribed_to(group: Membership, topic: str) -> bool:
    """Whether members read the topic. If the subscriptions are unknown, it is assumed that a group
    of consumers reads it, and that other groups do not."""
    if group.topics is None:
        return group.protocol_type == CONSUMER
    return topic in group.topics


def offset_age_since_ms(group: Membership, committed_ms: int) -> int | None:
    """Return the wall time from which the retention of an offset counts; None if it does not expire
    now."""
    if not group.protocol_type:
        # No member has ever joined: a consumer that assigns its partitions itself committed them.
        return committed_ms
    if group.state is ClassicGroupState.EMPTY:
        return committed_ms if group.state_since_ms is None else group.state_since_ms
    if group.state is ClassicGroupState.STABLE and group.topics is not None:
        return committed_ms
    return None
