"""One classic group, with the interface that the table of groups uses.

    decide                                    the log                   replay
    on_... -> Outcome(records, answers) -> append, all or nothing -> replay_group_metadata

Invariants (`Membership.check`, and a state machine in the tests): there is one leader, and it is a
member. The generation only grows. Each ticket is answered exactly once. An assignment is only given
for the generation that it was made for. A static id belongs to one member.

Almost all of a classic group is volatile: members that join and wait, sessions, the generation
until its leader has synced. A record holds the whole group as of a sync (or as Empty). So replay
has two cases:

- A record of our own: the effect that its event decided takes place (the assignment is set, the
  static member is replaced), and nothing else changes.
- A record from the log (while loading, or created from a consumer group that no longer exists): the
  group becomes what the record says. `on_downgraded` adds what the consumer group knew beyond the
  record.

Kafka keeps all this in one class of many thousand lines. Here each family of events has a module of
functions over `Membership`, and this class only routes calls to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from moldau.broker.coordinator.group.classic import answers, liveness, offsets, records
from moldau.broker.coordinator.group.classic.join import Join, found, on_join_group
from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol
from moldau.broker.coordinator.group.classic.membership import Membership, Timer
from moldau.broker.coordinator.group.classic.rebalance import (
    on_join_deadline,
    on_sync_deadline,
    rebalance,
)
from moldau.broker.coordinator.group.classic.states import ClassicGroupState
from moldau.broker.coordinator.group.classic.step import GroupEvent, Pending
from moldau.broker.coordinator.group.classic.sync import on_sync_group
from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.outcome import (
    NOTHING,
    Answer,
    LogRecord,
    Outcome,
    Ticket,
    answered,
)
from moldau.broker.settings import coordinator
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import Downgrade, GroupServices
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.sync_group import SyncGroupRequest
    from moldau.protocol.schemas.group_log import GroupMetadataValue


class ClassicGroup:
    """A group of the classic protocol, or one that only has offsets."""

    kind: ClassVar[GroupKind] = GroupKind.CLASSIC
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str, services: GroupServices) -> None:
        self.group_id = group_id
        self._services = services
        self._group = Membership(group_id)
        self._pending: Pending | None = None
        self._is_recorded = False

    @property
    def state(self) -> ClassicGroupState:
        return self._group.state

    @property
    def state_name(self) -> str:
        return self._group.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group is empty: no member has joined. Member ids may have been handed out."""
        return self._group.state is ClassicGroupState.EMPTY

    @property
    def protocol_type(self) -> str:
        return self._group.protocol_type

    @property
    def protocol_name(self) -> str | None:
        """The assignor of the current generation."""
        return self._group.protocol_name

    @property
    def generation_id(self) -> int:
        return self._group.generation_id

    @property
    def leader_id(self) -> str | None:
        return self._group.leader_id

    @property
    def members(self) -> Mapping[str, Member]:
        """The members by member id; read-only."""
        return self._group.members

    # Members.

    def on_join_group(
        self, message: JoinGroupRequest, context: RequestContext, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Handle a JoinGroup request that has passed `validation.check_join`."""
        step = self._begin(now_ms)
        on_join_group(self._group, step, Join.of(message, context, ticket))
        if not self._is_recorded and step.pending is None:
            found(self._group, step)
        return self._end(step)

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        """Handle a SyncGroup request that has passed `validation.check_sync`."""
        step = self._begin(now_ms)
        on_sync_group(self._group, step, message, ticket)
        return self._end(step)

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome:
        self._awake(now_ms)
        return answered(ticket, liveness.on_heartbeat(self._group, message, now_ms))

    def on_leave_group(self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        step = self._begin(now_ms)
        liveness.on_leave_group(self._group, step, message, ticket)
        return self._end(step)

    # Offsets.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> None:
        """Raise KafkaError if this member may not commit in this generation."""
        self._check_alive()
        offsets.check_commit(self._group, member_id, instance_id, epoch, is_txn=is_txn)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every fetch: any client may read the offsets of a classic group."""

    def on_commit(self, member_id: str, now_ms: int) -> None:
        """Restart the member's session: its commit shows that it is alive."""
        offsets.on_commit(self._group, member_id, now_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        return offsets.is_subscribed_to(self._group, topic)

    def offset_age_since_ms(self, committed_ms: int, topic: str) -> int | None:
        return offsets.offset_age_since_ms(self._group, committed_ms)

    def check_offset_delete(self) -> None:
        """Raise KafkaError if no offset of the group may be deleted. `is_subscribed_to` decides
        about single topics."""
        offsets.check_offset_delete(self._group)

    def check_delete(self) -> None:
        """Raise KafkaError if the group may not be deleted."""
        offsets.check_delete(self._group)

    def tombstones(self) -> tuple[LogRecord, ...]:
        return (records.tombstone(self.group_id),)

    # Life.

    def replay_group_metadata(self, value: GroupMetadataValue, now_ms: int) -> None:
        """Apply a record of the log: the effect of our own pending record, or a whole group;
        see the module."""
        pending, self._pending = self._pending, None
        self._is_recorded = True
        if pending is not None and (pending.record.value is value or pending.record.value == value):
            pending.on_replayed()
        else:
            self._become(value)

    def _become(self, value: GroupMetadataValue) -> None:
        group = self._group = Membership(self.group_id)
        for member in records.loaded_members(value):
            group.add(member, value.protocol_type)
        since_ms = value.current_state_timestamp
        group.state = ClassicGroupState.STABLE if group.members else ClassicGroupState.EMPTY
        group.state_since_ms = None if since_ms < 0 else since_ms
        group.generation_id = value.generation
        group.protocol_type = value.protocol_type
        group.protocol_name = value.protocol
        if value.leader in group.members:
            group.leader_id = value.leader
        group.recount_topics()

    def on_loaded(self, now_ms: int) -> Outcome:
        """Begin the sessions. A group that is now above `group.max.size` rebalances, so that its
        members can commit before some of them are rejected."""
        step = self._begin(now_ms)
        self._begin_sessions(now_ms)
        if (
            len(self._group.members) > self._services.settings[coordinator.group_max_size]
            and self._group.state is ClassicGroupState.STABLE
        ):
            rebalance(self._group, step, "loaded with more members than group.max.size")
        return self._end(step)

    def on_downgraded(self, downgrade: Downgrade, now_ms: int) -> Outcome:
        """Take over the members of a consumer group. They rebalance to agree on an assignment
        themselves, together with members that join meanwhile."""
        step = self._begin(now_ms)
        for member in self._group.members.values():
            offers = downgrade.offers.get(member.member_id)
            if offers is not None:
                known = tuple(MemberProtocol(each.name, each.metadata) for each in offers)
                self._group.renew(member, known)
        self._begin_sessions(now_ms)
        if downgrade.rebalances and self._group.members:
            rebalance(self._group, step, "downgraded from a consumer group")
        return self._end(step)

    def _begin_sessions(self, now_ms: int) -> None:
        for member in self._group.members.values():
            if member.member_id not in self._group.deadlines:
                self._group.restart_session(member, now_ms)

    def on_upgraded(self) -> tuple[Answer, ...]:
        """End the requests that wait in this group, which is replaced. Return their answers."""
        step = GroupEvent(self._services, 0)
        code = ErrorCode.REBALANCE_IN_PROGRESS
        for member in self._group.members.values():
            ticket = self._group.set_join_ticket(member, None)
            step.answer(ticket, answers.refused_join(code, member.member_id))
            step.answer(member.take_sync(), answers.refused_sync(code))
        return step.outcome().answers

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """End the group on this node and give back the tickets of the waiting requests."""
        group = self._group
        tickets = [
            ticket
            for member in group.members.values()
            for ticket in (group.set_join_ticket(member, None), member.take_sync())
            if ticket is not None
        ]
        group.deadlines.clear()
        group.enter(ClassicGroupState.DEAD, group.state_since_ms or 0)
        return tuple(tickets)

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Do nothing: classic members watch the topics themselves."""
        return NOTHING

    @property
    def has_nearer_deadline(self) -> bool:
        return self._group.deadlines.has_news

    def next_deadline_ms(self) -> int | None:
        return self._group.deadlines.next_ms()

    def on_tick(self, now_ms: int) -> Outcome:
        """Handle one deadline that is due."""
        step = self._begin(now_ms)
        key = self._group.deadlines.pop_due(now_ms)
        if key is Timer.JOIN:
            on_join_deadline(self._group, step)
        elif key is Timer.SYNC:
            on_sync_deadline(self._group, step)
        elif key is not None:
            liveness.on_session_end(self._group, step, key)
        return self._end(step)

    def describe(self) -> DescribedGroup:
        """Describe the group for DescribeGroups. Subscriptions are shown only in state Stable."""
        group = self._group
        is_stable = group.state is ClassicGroupState.STABLE
        return DescribedGroup(
            error_code=0,
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=group.protocol_type,
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    member_metadata=each.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=each.assignment,
                )
                for each in group.members.values()
            ],
        )

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._group.check()

    def _begin(self, now_ms: int) -> GroupEvent:
        self._awake(now_ms)
        return GroupEvent(self._services, now_ms)

    def _awake(self, now_ms: int) -> None:
        """Raise KafkaError if the group is dead. The age of a group without a record counts from
        its first event."""
        self._check_alive()
        if self._group.state_since_ms is None and not self._is_recorded:
            self._group.state_since_ms = self._services.wall_ms(now_ms)

    def _end(self, step: GroupEvent) -> Outcome:
        self._pending = step.pending
        return step.outcome()

    def _check_alive(self) -> None:
        if self._group.state is ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
