"""What a classic group means for its committed offsets: who may commit, what may be deleted, when
they expire.

Only members of the present generation commit, and not while the leader works out who reads what.
An empty group takes commits from anybody who claims no generation: admin tools, and consumers that
assign their partitions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.classic.protocols import CONSUMER
from moldau.broker.coordinator.group.classic.states import State
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.classic.membership import Membership

_OCCUPIED = (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)


def check_commit(
    group: Membership,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    *,
    is_txn: bool,
) -> None:
    """KafkaError when that member in that generation may not commit. Transactions of old clients
    name no member; they are fenced by their producer alone."""
    if generation_id < 0 and group.state is State.EMPTY:
        return
    if generation_id >= 0 or member_id or instance_id is not None:
        group.check_member(member_id, instance_id)
        if generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    elif not is_txn:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not is_txn and group.state is State.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def on_commit(group: Membership, member_id: str, now_ms: int) -> None:
    """A commit is a sign of life, but not while the leader assigns."""
    member = group.members.get(member_id)
    if member is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
        group.restart_session(member, now_ms)


def check_delete(group: Membership) -> None:
    """Only a group without members may be deleted."""
    if group.state in _OCCUPIED:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def check_offset_delete(group: Membership) -> None:
    """Offsets of a group whose members' subscriptions nobody here can read stay while it has
    members."""
    if group.state in _OCCUPIED and group.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def is_subscribed_to(group: Membership, topic: str) -> bool:
    """Whether members read the topic; if one cannot tell, consumers may and others do not."""
    if group.topics is None:
        return group.protocol_type == CONSUMER
    return topic in group.topics


def offset_age_since_ms(group: Membership, committed_ms: int) -> int | None:
    """From when the retention of an offset counts (wall time); None: it does not expire now."""
    if not group.protocol_type:
        # nobody has ever joined: offsets of a consumer that assigns its partitions itself
        return committed_ms
    if group.state is State.EMPTY:
        return committed_ms if group.state_since_ms is None else group.state_since_ms
    if group.state is State.STABLE and group.topics is not None:
        return committed_ms
    return None
