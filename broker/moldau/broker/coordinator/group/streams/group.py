"""A streams group: see the package for its parts, and `contract.RecordedGroup` for each call.

Check whether a member may commit offsets: it commits with its epoch. A member that does not know
its new epoch yet may still commit partitions of active tasks that were assigned to it in the epoch
that it sends, or before (KIP-1251). Any other commit with an old epoch is rejected, because the
task may run at another member.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Final

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.contract import (
    GroupKind,
    GroupServices,
    PartitionCheck,
    RecordedGroup,
)
from moldau.broker.coordinator.group.streams import departure, heartbeat, records
from moldau.broker.coordinator.group.streams.description import described
from moldau.broker.coordinator.group.streams.member import Member
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
from moldau.broker.coordinator.group.streams.tasks import Role, SubtopologyRole
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket, answered
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages.streams_group_describe import DescribedGroup
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)

PROTOCOL_TYPE: Final = "streams"
_MEMBER_EPOCHS_SINCE: Final = 9
"""Older versions of OffsetCommit do not know member epochs."""


class StreamsGroup(RecordedGroup):
    """One streams group."""

    kind: ClassVar[GroupKind] = GroupKind.STREAMS
    expires: ClassVar[bool] = True

    def __init__(self, group_id: str, services: GroupServices) -> None:
        """Create an empty group without records."""
        self.group_id = group_id
        self.state = StreamsGroupState(group_id, services)

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return self.state.name.value

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    # Members.

    def on_streams_group_heartbeat(
        self,
        message: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        return heartbeat.on_heartbeat(self.state, message, context, ticket, now_ms)

    def on_topology_description(
        self, message: StreamsGroupTopologyDescriptionUpdateRequest, ticket: Ticket
    ) -> Outcome:
        """Keep the graph of the group's topology that a member gives."""
        state = self.state
        state.member(message.member_id)
        epoch = message.topology_epoch
        if state.topology is None or epoch != state.topology.epoch:
            text = "the group has a topology of another epoch"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text, topology_epoch=epoch)
        state.volatile.graph.put(epoch, message.topology_description)
        response = StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.NONE)
        return answered(ticket, response)

    # Offsets.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> PartitionCheck | None:
        if epoch < 0 and not self.state.members:
            return None  # an admin tool
        if is_txn and epoch == -1 and not member_id and instance_id is None:
            return None  # a transaction of a producer that is in no group
        member = self.state.member(member_id)
        if not is_txn and api_version < _MEMBER_EPOCHS_SINCE:
            text = "its members commit with OffsetCommit 9 or newer"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(member, epoch)

        def check(topic_name: str, topic_id: Uuid, partition: int) -> None:
            since = self._assigned_since(member, topic_name, partition)
            if since is None or epoch < since:
                raise _stale(member, epoch)

        return check

    def _assigned_since(self, member: Member, topic: str, partition: int) -> int | None:
        """Return the epoch in which the member got the active task that reads a partition; None if
        it does not have it."""
        topology = self.state.topology
        subtopology_id = None if topology is None else topology.by_input.get(topic)
        if subtopology_id is None:
            return None
        key = SubtopologyRole(Role.ACTIVE, subtopology_id)
        for owned in (member.progress.assigned, member.progress.revoking):
            since = owned.get(key, {}).get(partition)
            if since is not None:
                return since
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.state.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(member, member_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        return not self.is_empty and self.state.reads(topic)

    def tombstones(self) -> tuple[LogRecord, ...]:
        members = (
            record
            for member_id in self.state.members
            for record in records.member_deleted(self.group_id, member_id)
        )
        return (*members, *records.group_deleted(self.group_id))

    def describe(self) -> DescribedGroup:
        return described(self.state)

    def graph(self) -> TopologyDescription | None:
        """Return the topology as a graph of nodes, if a member has given it."""
        topology = self.state.topology
        return None if topology is None else self.state.volatile.graph.of(topology.epoch)

    # Life.

    def on_loaded(self, now_ms: int) -> Outcome:
        session_ms = self.state.terms.session_ms
        until_ms = now_ms + self.state.terms.task_offset_interval_ms
        self.state.volatile.positions.on_loaded(self.state.members, until_ms)
        for member_id in self.state.members:
            self.state.volatile.deadlines.set(Due.SESSION, member_id, now_ms + session_ms)
        return NOTHING

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Forget the configured topology if one of its topics changed. The next heartbeat of any
        member makes it anew."""
        topology = self.state.topology
        if topology is not None and not topology.topic_names().isdisjoint(topics):
            self.state.volatile.configured = None
            self.state.volatile.checked_epoch = None
        return NOTHING

    @property
    def has_nearer_deadline(self) -> bool:
        volatile = self.state.volatile
        return volatile.deadlines.has_news or volatile.first_target_ms is not None

    def next_deadline_ms(self) -> int | None:
        first_ms = self.state.volatile.first_target_ms
        due_ms = self.state.volatile.deadlines.next_ms()
        if first_ms is None or due_ms is None:
            return due_ms if first_ms is None else first_ms
        return min(first_ms, due_ms)

    def on_tick(self, now_ms: int) -> Outcome:
        first_ms = self.state.volatile.first_target_ms
        if first_ms is not None and first_ms <= now_ms:
            return departure.on_first_target_due(self.state, now_ms)
        return departure.on_overdue(self.state, now_ms)

    # Records.

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        self.state.replay(key, value)


def _stale(member: Member, epoch: int) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, member_epoch=epoch, known=member.epoch)
