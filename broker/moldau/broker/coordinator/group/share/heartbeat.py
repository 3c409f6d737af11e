"""ShareGroupHeartbeat: with this one request a member joins, stays and leaves.

A new target assignment is used at once: members of a share group may read the same partitions, so
none waits until another has given one up.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Final

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec
from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions
from moldau.broker.coordinator.group.members import check_room, remove_overdue
from moldau.broker.coordinator.group.share import initialization, records
from moldau.broker.coordinator.group.share.assignor import assign
from moldau.broker.coordinator.group.share.member import Member, Profile
from moldau.broker.coordinator.group.share.state import ShareGroupState
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.group import (
    bounded,
    share_assignment_interval_ms,
    share_heartbeat_interval_ms,
    share_session_timeout_ms,
)
from moldau.broker.settings.share import group_share_max_size
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
EXTENSIONS: Final = 1
"""What this broker can do beyond Kafka: 1 is delays and reasons in acknowledgements."""


def check_heartbeat(message: ShareGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a heartbeat that is invalid in every group, in Kafka's order."""
    if not message.member_id.strip():
        raise _invalid("MemberId must not be empty")
    if not message.group_id.strip():
        raise _invalid("GroupId must not be empty")
    if message.rack_id is not None and not message.rack_id.strip():
        raise _invalid("RackId must not be empty")
    if message.member_epoch == JOINING_EPOCH:
        if not message.subscribed_topic_names:
            raise _invalid("a joining member gives SubscribedTopicNames")
    elif message.member_epoch < LEAVING_EPOCH:
        raise _invalid("no MemberEpoch is that low", member_epoch=message.member_epoch)


def _invalid(reason: str, **context: object) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason, **context)


def on_heartbeat(
    state: ShareGroupState,
    message: ShareGroupHeartbeatRequest,
    context: RequestContext,
    ticket: Ticket,
    now_ms: int,
) -> Outcome:
    """Handle a heartbeat that has passed `check_heartbeat`."""
    if message.member_epoch == LEAVING_EPOCH:
        return _leave(state, message, ticket)
    limit = state.services.settings[group_share_max_size]
    check_room(state.members, message.member_id, limit)
    before = _member(state, message)
    member = replace(before, profile=_renewed(before.profile, message, context))
    found: list[LogRecord] = []
    is_new = before.member_id not in state.members
    if is_new or member.profile != before.profile:
        found.append(records.member_profile(state.group_id, member))
    changed = is_new or member.profile.topic_names != before.profile.topic_names
    epoch = _next_epoch(state, member, found, changed=changed)
    target_epoch, target = _target(state, member, epoch, now_ms, found)
    moved = _reconciled(state, member, target_epoch, target, changed=changed)
    if moved is not member:
        found.append(records.member_assignment(state.group_id, moved))
    settings = state.services.group_settings(state.group_id)
    session_ms = bounded(settings, share_session_timeout_ms)
    state.volatile.deadlines.set(Due.SESSION, member.member_id, now_ms + session_ms)
    is_full = message.member_epoch == JOINING_EPOCH or message.subscribed_topic_names is not None
    response = ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=bounded(settings, share_heartbeat_interval_ms),
        share_extensions=EXTENSIONS,
    )
    if is_full or moved.assigned != before.assigned:
        response.assignment = _assignment(moved.assigned)
    outcome = Outcome(tuple(found), ((ticket, response),))
    begun = initialization.begin(state, state.subscribed(come=member), epoch, now_ms)
    if begun is None:
        return outcome
    record, effect = begun
    return outcome._replace(records=(*outcome.records, record), effects=(effect,))


def _member(state: ShareGroupState, message: ShareGroupHeartbeatRequest) -> Member:
    """Return the member that sent the heartbeat. Its epoch must be the known one or, because the
    answer may have been lost, the one before."""
    if message.member_epoch == JOINING_EPOCH:
        return state.members.get(message.member_id) or Member(message.member_id)
    member = state.member(message.member_id)
    epoch = message.member_epoch
    if epoch != member.epoch and (epoch > member.epoch or epoch != member.previous_epoch):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "that is not the member's epoch: it must give up all partitions and join again",
            member_epoch=epoch,
            known=member.epoch,
        )
    return member


def _renewed(
    known: Profile, message: ShareGroupHeartbeatRequest, context: RequestContext
) -> Profile:
    """Return the profile after the request. Null in a field of the request means no change."""
    names = message.subscribed_topic_names
    return Profile(
        rack_id=known.rack_id if message.rack_id is None else message.rack_id,
        client_id=context.client_id,
        client_host=context.client_host,
        topic_names=known.topic_names if names is None else frozenset(names),
    )


def _next_epoch(
    state: ShareGroupState, member: Member, found: list[LogRecord], *, changed: bool
) -> int:
    """Return the group epoch, and add its record if it grows: the subscriptions changed, the topics
    did, or no member reads states that were set up."""
    bumps = changed or (state.target_epoch >= state.epoch and _is_unread(state))
    volatile = state.volatile
    if not bumps and volatile.is_checked:
        return state.epoch
    metadata_hash = volatile.hashes.of(state.subscribed(come=member), state.services.cluster)
    volatile.is_checked = True
    if not bumps and metadata_hash == state.metadata_hash:
        return state.epoch
    epoch = state.epoch + 1
    found.append(records.group_epoch(state.group_id, epoch, metadata_hash))
    return epoch


def _is_unread(state: ShareGroupState) -> bool:
    """Whether a subscribed topic has initialized partitions that differ from the assigned ones."""
    if not state.members or not state.initialized:
        return False
    read: dict[Uuid, frozenset[int]] = {}
    for partitions in state.target.values():
        for topic_id, held in partitions.items():
            read[topic_id] = read.get(topic_id, frozenset()) | held
    return any(
        read.get(topic_id) != partitions
        for topic_id, partitions in state.initialized.items()
        if state.topic_names.get(topic_id) in state.names
    )


def _target(
    state: ShareGroupState, member: Member, epoch: int, now_ms: int, found: list[LogRecord]
) -> tuple[int, Partitions]:
    """Return the epoch of the target and the member's part. A target behind the group epoch is
    computed anew, if the last one is old enough."""
    target = state.target.get(member.member_id, NO_PARTITIONS)
    settings = state.services.group_settings(state.group_id)
    wall_ms = state.services.wall_ms(now_ms)
    due_ms = state.target_timestamp_ms + bounded(settings, share_assignment_interval_ms)
    if state.target_epoch >= epoch or (state.target_timestamp_ms and wall_ms < due_ms):
        return state.target_epoch, target
    members = {**state.members, member.member_id: member}
    topic_ids: dict[frozenset[str], frozenset[Uuid]] = {}
    specs = {
        member_id: MemberSpec(
            _ids_of(state, each.profile.topic_names, topic_ids),
            state.target.get(member_id, NO_PARTITIONS),
        )
        for member_id, each in members.items()
    }
    assignment = assign(specs, state.initialized)
    for member_id, partitions in assignment.items():
        if state.target.get(member_id, None) != partitions:
            found.append(records.target_of_member(state.group_id, member_id, partitions))
    found.append(records.target_epoch(state.group_id, epoch, wall_ms))
    return epoch, assignment[member.member_id]


def _ids_of(
    state: ShareGroupState, names: frozenset[str], known: dict[frozenset[str], frozenset[Uuid]]
) -> frozenset[Uuid]:
    ids = known.get(names)
    if ids is None:
        topics = (state.services.cluster.by_name(name) for name in names)
        ids = known[names] = frozenset(each.topic_id for each in topics if each is not None)
    return ids


def _reconciled(
    state: ShareGroupState, member: Member, epoch: int, target: Partitions, *, changed: bool
) -> Member:
    """Return the member with the target, as far as it subscribes to it."""
    if epoch == member.epoch and not changed:
        return member
    ids = _ids_of(state, member.profile.topic_names, {})
    assigned = {topic_id: held for topic_id, held in target.items() if topic_id in ids}
    moved = replace(member, assigned=assigned)
    if epoch != member.epoch:
        moved = replace(moved, epoch=epoch, previous_epoch=member.epoch)
    return member if moved == member else moved


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(assigned[topic_id]))
            for topic_id in sorted(assigned)
        ]
    )


# Members that leave.


def _leave(state: ShareGroupState, message: ShareGroupHeartbeatRequest, ticket: Ticket) -> Outcome:
    member = state.member(message.member_id)
    response = ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )
    return Outcome(_records_without(state, (member,)), ((ticket, response),))


def on_overdue(state: ShareGroupState, now_ms: int) -> Outcome:
    """Remove all members that were silent for too long, together."""
    return remove_overdue(
        state,
        state.volatile.deadlines,
        now_ms,
        lambda what, member: True,
        partial(_records_without, state),
    )


def _records_without(state: ShareGroupState, gone: Collection[Member]) -> tuple[LogRecord, ...]:
    found: list[LogRecord] = []
    for member in gone:
        found += records.member_deleted(state.group_id, member.member_id)
    metadata_hash = state.volatile.hashes.of(state.subscribed(gone), state.services.cluster)
    found.append(records.group_epoch(state.group_id, state.epoch + 1, metadata_hash))
    if len(gone) == len(state.members):  # nothing is to be assigned
        found.append(records.target_epoch(state.group_id, state.epoch + 1, 0))
    return tuple(found)
