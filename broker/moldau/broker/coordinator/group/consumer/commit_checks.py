"""Check whether a member may commit and fetch offsets.

A member commits with its epoch. A member that does not know its new epoch yet may still commit
partitions that were assigned to it in the epoch that it sends, or before (KIP-1251): it owns them
in both epochs. Any other commit with an old epoch is rejected, because the partition may have a new
owner with a higher offset.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.contract import PartitionCheck
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid

_MEMBER_EPOCHS_SINCE: Final = 9
"""Older versions of OffsetCommit do not know member epochs."""


def check_commit(
    state: ConsumerGroupState,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    *,
    is_txn: bool,
) -> PartitionCheck | None:
    """Check whether a member may commit, and which partitions: see `Group.check_commit`."""
    if epoch < 0 and not state.members:
        return None  # an admin tool, or a consumer that assigns its partitions itself
    if is_txn and epoch == -1 and not member_id and instance_id is None:
        return None  # a transaction of a producer that is in no group
    member = state.member(member_id)
    if not is_txn and not member.speaks_classic and api_version < _MEMBER_EPOCHS_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "its members commit with OffsetCommit 9 or newer",
        )
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise _stale(member, epoch)

    def check(topic_name: str, topic_id: Uuid, partition: int) -> None:
        if topic_id == ZERO_UUID:
            topic = state.services.cluster.by_name(topic_name)
            topic_id = ZERO_UUID if topic is None else topic.topic_id
        progress = member.progress
        for owned in (progress.assigned, progress.revoking):
            since = owned.get(topic_id, {}).get(partition)
            if since is not None:
                if epoch < since:
                    raise _stale(member, epoch)
                return
        raise _stale(member, epoch)

    return check


def check_fetch(state: ConsumerGroupState, member_id: str | None, member_epoch: int) -> None:
    """Raise UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION if the client may not
    fetch. A client that sends neither a member id nor an epoch may always fetch."""
    if member_id is None and member_epoch < 0:
        return
    member = state.member(member_id or "")
    if member_epoch != member.epoch:
        raise _stale(member, member_epoch)


def _stale(member: Member, epoch: int) -> KafkaError:
    code = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(code, member_epoch=epoch, known=member.epoch)
