"""The rules about members that consumer, share and streams groups have in common.

A member proves its identity by its epoch. Its previous epoch is valid as well, if the member owns
only partitions (or tasks) that are assigned to it: the response with the new epoch may have been
lost. Any other epoch means that the member was away too long: it must give up all partitions and
join again.

A static member (KIP-345) has an instance id. It may leave for a while, and what it owns stays its
own until its session ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from moldau.broker.coordinator.group.consumer.deadlines import Deadlines, Due
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.partitions import (
    NOTHING_OWNED,
    K,
    PartitionsBy,
    is_within,
)
from moldau.broker.coordinator.group.consumer.reconciliation import (
    STATIC_LEAVING_EPOCH,
    Progress,
)
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import GroupServices

RETRY_MS: Final = 500
"""The delay before the next attempt if a removal could not be written."""


class IdentifiedMember(Protocol):
    """A member of any kind of group."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...


M = TypeVar("M", bound=IdentifiedMember)
M_co = TypeVar("M_co", bound=IdentifiedMember, covariant=True)


class StaticMembers(Protocol[M_co]):
    """The members of a group, by instance id."""

    def static_member(self, instance_id: str | None) -> M_co | None:
        """Return the member that has this instance id now, or None."""
        ...


class RecordedState(Protocol[M]):
    """The state of a group whose members are in the log."""

    group_id: str
    services: GroupServices
    members: dict[str, M]


def member_of(members: Mapping[str, M], group_id: str, member_id: str) -> M:
    """Return the member with this id. Raise UNKNOWN_MEMBER_ID if there is none."""
    member = members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def check_room(members: Collection[str], member_id: str, limit: int) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for a new member if the group is full."""
    if member_id not in members and len(members) >= limit:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "the group is full", members=limit)


def known_static_member(state: StaticMembers[M], member_id: str, instance_id: str) -> M:
    """Return the member with this instance id. Raise KafkaError if it is unknown or has another
    member id."""
    member = state.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, "no member has that InstanceId", instance=instance_id
        )
    check_instance(member, member_id, instance_id)
    return member


def check_instance(member: IdentifiedMember, member_id: str, instance_id: str | None) -> None:
    """Raise FENCED_INSTANCE_ID if another member has taken over the instance id."""
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            "another member has taken over the InstanceId",
            instance=instance_id,
            member=member_id,
        )


def check_released(before: IdentifiedMember, instance_id: str) -> None:
    """Raise UNRELEASED_INSTANCE_ID unless the member has left for a while (epoch -2): a second
    client that was given the same id by mistake must not replace one that still sends heartbeats.
    """
    if before.epoch != STATIC_LEAVING_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            "a member with that InstanceId is in the group",
            instance=instance_id,
            member=before.member_id,
        )


def check_epoch(known: Progress[K], epoch: int, owned: PartitionsBy[K] | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is valid: it is the member's, or its previous one
    if the response with the new epoch may have been lost. Epoch 0 is always valid: the member
    joins, perhaps again."""
    if epoch in (0, known.epoch):
        return
    answer_was_lost = (
        epoch == known.previous_epoch and epoch < known.epoch and owned is not None
    ) and is_within(owned, known.assigned)
    if not answer_was_lost:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "that is not the member's epoch: it must give up all partitions and join again",
            member_epoch=epoch,
            known=known.epoch,
        )


def absent(progress: Progress[K]) -> Progress[K]:
    """Return the progress of a static member that leaves for a while. All that it owns counts as
    assigned in epoch 0: if it comes back with another id, it may commit it in any epoch."""
    return replace(
        progress,
        epoch=STATIC_LEAVING_EPOCH,
        assigned={key: dict.fromkeys(held, 0) for key, held in progress.assigned.items()},
        revoking=NOTHING_OWNED,
    )


def still_counts(what: Due, progress: Progress[Any]) -> bool:
    """Whether a deadline still applies. One for revoking does not apply if the member has revoked
    meanwhile, or if it is an absent static member, which only its session removes."""
    is_here = progress.epoch != STATIC_LEAVING_EPOCH
    still_owes = is_here and progress.state is MemberState.UNREVOKED_PARTITIONS
    return what is not Due.REBALANCE or still_owes


def remove_overdue(
    state: RecordedState[M],
    deadlines: Deadlines,
    now_ms: int,
    counts: Callable[[Due, M], bool],
    records_without: Callable[[tuple[M, ...]], tuple[LogRecord, ...]],
) -> Outcome:
    """Remove all members with an overdue deadline that counts, together."""
    gone: dict[str, M] = {}
    for what, member_id in deadlines.take_due(now_ms):
        member = state.members.get(member_id)
        if member is not None and counts(what, member):
            gone[member_id] = member
            state.services.log.info(
                "member removed", group=state.group_id, member=member_id, overdue=what.value
            )
    if not gone:
        return NOTHING

    def again(_: KafkaError, failed_ms: int) -> Outcome:
        for member_id in gone:
            deadlines.set(Due.SESSION, member_id, failed_ms + RETRY_MS)
        return NOTHING

    return Outcome(records_without(tuple(gone.values())), on_failure=again)
