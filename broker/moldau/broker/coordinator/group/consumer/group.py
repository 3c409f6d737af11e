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
members share), `departure`, `subscription`, `classic_members`, `upgrade` and `downgrade`,
`commit_checks`, `description`. `reconciliation`, `assignors` and `deadlines` know nothing of
consumer groups: streams groups (KIP-1071) and share groups can be built on them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from moldau.broker.coordinator.group.consumer import (
    classic_members,
    commit_checks,
    description,
    heartbeat,
    subscription,
)
from moldau.broker.coordinator.group.consumer.departure import on_overdue
from moldau.broker.coordinator.group.consumer.downgrade import tombstones
from moldau.broker.coordinator.group.consumer.embedded_protocol import PROTOCOL_TYPE
from moldau.broker.coordinator.group.consumer.replay import replay
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.upgrade import (
    answers_of_waiting,
    check_upgrade,
    upgrade_records,
)
from moldau.broker.coordinator.group.contract import (
    ClassicGroup,
    Downgrade,
    GroupKind,
    GroupServices,
    PartitionCheck,
)
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.group import bounded, consumer_session_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.protocol.declare import LogKey, LogValue
    from moldau.protocol.messages.consumer_group_describe import DescribedGroup
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.sync_group import SyncGroupRequest


class ConsumerGroup:
    """One consumer group: see `contract.ConsumerGroup` for the contract of each call."""

    expires: ClassVar[bool] = True

    def __init__(self, group_id: str, services: GroupServices) -> None:
        """Create an empty group without records."""
        self.group_id = group_id
        self.state = ConsumerGroupState(group_id, services)
        # Expressions that were resolved before the group was loaded are resolved again after the
        # first heartbeat.
        self.state.volatile.topics_version = services.cluster.version

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CONSUMER

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
        return commit_checks.check_commit(
            self.state, member_id, instance_id, epoch, api_version, is_txn=is_txn
        )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        commit_checks.check_fetch(self.state, member_id, member_epoch)

    def on_commit(self, member_id: str, now_ms: int) -> None:
        """Do nothing: only heartbeats keep a member alive."""

    def is_subscribed_to(self, topic: str) -> bool:
        return self.state.is_subscribed_to(topic)

    def offset_age_since_ms(self, committed_ms: int, topic: str) -> int | None:
        """Return the time of the commit: the age of an offset counts from it. (Offsets of topics
        that members read do not expire.)"""
        return committed_ms

    def check_delete(self) -> None:
        if self.state.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """Allow the deletion: offsets of topics that no member reads may be deleted."""

    def tombstones(self) -> tuple[LogRecord, ...]:
        return tombstones(self.state)

    def describe(self) -> DescribedGroup:
        return description.described(self.state)

    # Life

    def on_loaded(self, now_ms: int) -> Outcome:
        classic_members.begin_sessions(self.state, now_ms, self._session_ms)
        return NOTHING

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return no tickets: requests of a consumer group are never parked."""
        return ()

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
