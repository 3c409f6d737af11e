"""A consumer group (KIP-848): the broker assigns partitions, and members follow step by step.

Life of a rebalance:

1. A member joins or changes its subscription, and the group epoch grows.
2. The next heartbeat of any member after `group.consumer.assignment.interval.ms` computes a new
   target assignment.
3. With its own heartbeats each member revokes the partitions that it loses, moves to the new epoch,
   and takes the partitions that are free.

There is never a barrier at which all members wait.

Invariants:
- A partition is owned by one member at a time: see `reconciliation`.
- member epoch <= target epoch <= group epoch, and the group epoch never falls.
- The target has every partition of every existing topic with a subscriber exactly once.
- When nothing changes any more and members send heartbeats, each member reaches its target.

The code is split by families of events around one `State`: `heartbeat` (with `steps`, which classic
members share), `departure`, `subscription`, `classic_members`, `upgrade` and `downgrade`.
`reconciliation`, `assignors` and `deadlines` know nothing of
consumer groups: streams groups (KIP-1071) and share groups can be built on them.

Check whether a member may commit and fetch offsets.

A member commits with its epoch. A member that does not know its new epoch yet may still commit
partitions that were assigned to it in the epoch that it sends, or before (KIP-1251): it owns them
in both epochs. Any other commit with an old epoch is rejected, because the partition may have a new
owner with a higher offset.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from moldau.broker.coordinator.group.consumer import (
    classic_members,
    heartbeat,
    subscription,
)
from moldau.broker.coordinator.group.consumer.departure import on_overdue
from moldau.broker.coordinator.group.consumer.downgrade import tombstones
from moldau.broker.coordinator.group.consumer.embedded_protocol import PROTOCOL_TYPE
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    union,
    without_epochs,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.target import preferred_assignor
from moldau.broker.coordinator.group.consumer.upgrade import (
    answers_of_waiting,
    check_upgrade,
    upgrade_records,
)
from moldau.broker.coordinator.group.contract import (
    ClassicGroup,
    Cluster,
    Downgrade,
    GroupKind,
    GroupServices,
    PartitionCheck,
    RecordedGroup,
)
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.group import bounded, consumer_session_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from moldau.protocol.messages.consumer_group_describe import Member as DescribedMember
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
    from moldau.protocol.messages.consumer_group_describe import DescribedGroup
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.sync_group import SyncGroupRequest

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def described(state: ConsumerGroupState) -> DescribedGroup:
    """Return the description of the group and all its members."""
    return DescribedGroup(
        error_code=0,
        group_id=state.group_id,
        group_state=state.name.value,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=preferred_assignor(state),
        members=[_described(state, member) for _, member in sorted(state.members.items())],
    )


def _described(state: ConsumerGroupState, member: Member) -> DescribedMember:
    profile, progress, cluster = member.profile, member.progress, state.services.cluster
    # The member may still read the partitions that it has not revoked yet.
    held = without_epochs(union(progress.assigned, progress.revoking))
    return DescribedMember(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topic_names),
        subscribed_topic_regex=profile.topic_regex,
        assignment=_assignment(held, cluster),
        target_assignment=_assignment(state.target.get(member.member_id, NO_PARTITIONS), cluster),
        member_type=_CLASSIC if member.speaks_classic else _CONSUMER,
    )


def _assignment(partitions: Partitions, cluster: Cluster) -> Assignment:
    """Return the partitions with topic names. Deleted topics are left out, because they have no
    name."""
    topics = []
    for topic_id in sorted(partitions):
        topic = cluster.by_id(topic_id)
        if topic is not None:
            topics.append(
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topic.name,
                    partitions=sorted(partitions[topic_id]),
                )
            )
    return Assignment(topic_partitions=topics)


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


class ConsumerGroup(RecordedGroup):
    """One consumer group: see `contract.ConsumerGroup` for the contract of each call."""

    kind: ClassVar[GroupKind] = GroupKind.CONSUMER
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str, services: GroupServices) -> None:
        """Create an empty group without records."""
        self.group_id = group_id
        self.state = ConsumerGroupState(group_id, services)
        # Expressions that were resolved before the group was loaded are resolved again after the
        # first heartbeat.
        self.state.volatile.topics_version = services.cluster.version

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return self.state.name.value

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    @property
    def downgrade(self) -> Downgrade:
        return self.state.volatile.downgrade

    # Members

    def on_consumer_group_heartbeat(
        self,
        message: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        return heartbeat.on_heartbeat(self.state, message, context, ticket, now_ms)

    def on_upgrade(
        self,
        classic: ClassicGroup,
        message: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        check_upgrade(classic, self.state.services)
        records = list(upgrade_records(classic, self.state.services))
        # The new member joins the group in the state after the replay of these records. The
        # volatile state is shared with this group from the start.
        future = ConsumerGroupState(self.group_id, self.state.services, self.state.volatile)
        for record in records[1:]:
            replay(future, record.key, record.value)
        classic_members.begin_sessions(future, now_ms, self._session_ms)
        response = heartbeat.stay(future, message, context, now_ms, records)
        return Outcome(tuple(records), (*answers_of_waiting(classic), (ticket, response)))

    def on_join_group(
        self, message: JoinGroupRequest, context: RequestContext, ticket: Ticket, now_ms: int
    ) -> Outcome:
        return classic_members.on_join_group(self.state, message, context, ticket, now_ms)

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        return classic_members.on_sync_group(self.state, message, ticket, now_ms)

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome:
        return classic_members.on_heartbeat(self.state, message, ticket, now_ms)

    def on_leave_group(self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        return classic_members.on_leave_group(self.state, message, ticket)

    # Offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> PartitionCheck | None:
        return check_commit(self.state, member_id, instance_id, epoch, api_version, is_txn=is_txn)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        check_fetch(self.state, member_id, member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        return self.state.is_subscribed_to(topic)

    def tombstones(self) -> tuple[LogRecord, ...]:
        return tombstones(self.state)

    def describe(self) -> DescribedGroup:
        return described(self.state)

    # Life

    def on_loaded(self, now_ms: int) -> Outcome:
        classic_members.begin_sessions(self.state, now_ms, self._session_ms)
        return NOTHING

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Note the change. The next heartbeat of any member compares the group's topics with the
        metadata."""
        volatile = self.state.volatile
        volatile.topics_version = self.state.services.cluster.version
        if any(self.state.is_subscribed_to(topic) for topic in topics):
            volatile.checked_epoch = None
        return NOTHING

    @property
    def has_nearer_deadline(self) -> bool:
        volatile = self.state.volatile
        return volatile.deadlines.has_news or volatile.search is not None

    def next_deadline_ms(self) -> int | None:
        volatile = self.state.volatile
        deadline_ms = volatile.deadlines.next_ms()
        if volatile.search is None:
            return deadline_ms
        return min(deadline_ms or volatile.search_due_ms, volatile.search_due_ms)

    def on_tick(self, now_ms: int) -> Outcome:
        found = subscription.advance_search(self.state, now_ms)
        return found if found.records else on_overdue(self.state, now_ms)

    # Records

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        replay(self.state, key, value)

    @property
    def _session_ms(self) -> int:
        settings = self.state.services.group_settings(self.group_id)
        return bounded(settings, consumer_session_timeout_ms)
