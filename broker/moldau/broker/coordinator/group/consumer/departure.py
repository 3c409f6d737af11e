"""Members that leave: for ever, for a while (static members), or because they are silent too long.

When the last member of the new protocol leaves and classic members stay, the group becomes a
classic one again, if `group.consumer.migration.policy` allows it (see `downgrade`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.downgrade import downgraded, may_downgrade, remember
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.member_state import MemberState
from moldau.broker.coordinator.group.consumer.membership import known_static_member
from moldau.broker.coordinator.group.consumer.partitions import NOTHING_OWNED, Owned
from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.broker.coordinator.group.consumer.records import (
    group_epoch,
    member_deleted,
    member_progress,
    regex_deleted,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

RETRY_MS: Final = 500
"""The delay before the next attempt if a removal could not be written."""


def on_leave(
    state: ConsumerGroupState, message: ConsumerGroupHeartbeatRequest, ticket: Ticket
) -> Outcome:
    """Remove a member (epoch -1), or mark a static member as absent (epoch -2). An absent member is
    expected back before its session ends. Its partitions stay assigned to it meanwhile."""
    if message.instance_id is None:
        member = state.member(message.member_id)
    else:
        member = known_static_member(state, message.member_id, message.instance_id)
    response = ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )
    if message.instance_id is None or message.member_epoch != STATIC_LEAVING_EPOCH:
        return Outcome(records_without(state, (member,)), ((ticket, response),))
    # Assignment epoch 0: if the member comes back with another id, it may commit these partitions
    # in any epoch.
    away = replace(
        member.progress,
        epoch=STATIC_LEAVING_EPOCH,
        assigned=_since_always(member.progress.assigned),
        revoking=NOTHING_OWNED,
    )
    record = member_progress(state.group_id, member.member_id, away)
    return Outcome((record,), ((ticket, response),))


def records_without(state: ConsumerGroupState, gone: Collection[Member]) -> tuple[LogRecord, ...]:
    """Return the records that remove these members from the group, with one new group epoch."""
    if not gone:
        return ()
    if may_downgrade(state, gone):
        ids = {each.member_id for each in gone}
        stay = [each for each in state.members.values() if each.member_id not in ids]
        remember(state, stay, rebalances=True)
        return downgraded(state, stay)
    records: list[LogRecord] = []
    for member in gone:
        records += member_deleted(state.group_id, member.member_id)
    leaving = Counter(each.profile.topic_regex for each in gone if each.profile.topic_regex)
    for regex in sorted(leaving):
        if state.regexes[regex] == leaving[regex]:
            records.append(regex_deleted(state.group_id, regex))
    metadata_hash = state.volatile.hashes.of(state.topic_names(gone), state.services.cluster)
    records.append(group_epoch(state.group_id, state.epoch + 1, metadata_hash))
    return tuple(records)


def on_overdue(state: ConsumerGroupState, now_ms: int) -> Outcome:
    """Remove all members with an overdue deadline, together."""
    due = state.volatile.deadlines.take_due(now_ms)
    gone: dict[str, Member] = {}
    for what, member_id in due:
        member = state.members.get(member_id)
        if member is not None and _counts(what, member):
            gone[member_id] = member
            state.services.log.info(
                "member removed", group=state.group_id, member=member_id, overdue=what.value
            )
    if not gone:
        return NOTHING

    def again(_: KafkaError, failed_ms: int) -> Outcome:
        for member_id in gone:
            state.volatile.deadlines.set(Due.SESSION, member_id, failed_ms + RETRY_MS)
        return NOTHING

    return Outcome(records_without(state, tuple(gone.values())), on_failure=again)


def _counts(what: Due, member: Member) -> bool:
    """Whether the deadline still applies. A rebalance deadline does not apply if the member has
    revoked its partitions meanwhile, or if it is an absent static member, which only its session
    removes."""
    is_here = member.epoch != STATIC_LEAVING_EPOCH
    still_owes = is_here and member.progress.state is MemberState.UNREVOKED_PARTITIONS
    return what is not Due.REBALANCE or still_owes


def _since_always(owned: Owned) -> Owned:
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in owned.items()}
