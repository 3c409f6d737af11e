"""A share group: members that read the same partitions together (KIP-932).

Life: a member joins or changes its subscription, and the group epoch grows; the next heartbeat
computes a target assignment; each member takes it with its own heartbeat. The states of the
partitions are set up meanwhile (`initialization`), and assigned after that.

The group commits no offsets: the leaders of its partitions keep what is done.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from moldau.broker.coordinator.group.consumer.deadlines import Due
from moldau.broker.coordinator.group.contract import (
    GroupKind,
    GroupServices,
    PartitionCheck,
    RecordedGroup,
)
from moldau.broker.coordinator.group.share import heartbeat, initialization, records
from moldau.broker.coordinator.group.share.state import ShareGroupState
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings.group import bounded, share_session_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages import share_group_describe as describing
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

PROTOCOL_TYPE = "share"
ASSIGNOR = "simple"


class ShareGroup(RecordedGroup):
    """One share group: see `contract.RecordedGroup` for the contract of each call."""

    kind: ClassVar[GroupKind] = GroupKind.SHARE
    expires: ClassVar[bool] = False
    """Its offsets are not here, and what it still has to do must wait for its next member."""

    def __init__(self, group_id: str, services: GroupServices) -> None:
        """Create an empty group without records."""
        self.group_id = group_id
        self.state = ShareGroupState(group_id, services)

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return "Stable" if self.state.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    # Members.

    def on_share_group_heartbeat(
        self,
        message: ShareGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        return heartbeat.on_heartbeat(self.state, message, context, ticket, now_ms)

    # Offsets: it has none.

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, api_version: int, *, is_txn: bool
    ) -> PartitionCheck | None:
        raise self._no_consumers()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise self._no_consumers()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.state.names

    def check_offset_delete(self) -> None:
        raise self._no_consumers()

    def _no_consumers(self) -> KafkaError:
        text = f"Group {self.group_id} is not a consumer group."
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def tombstones(self) -> tuple[LogRecord, ...]:
        members = (
            record
            for member_id in self.state.members
            for record in records.member_deleted(self.group_id, member_id)
        )
        return (*members, *records.group_deleted(self.group_id))

    def describe(self) -> describing.DescribedGroup:
        """Return the group, its members and their partitions."""
        state = self.state
        return describing.DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=self.state_name,
            group_epoch=state.epoch,
            assignment_epoch=state.target_epoch,
            assignor_name=ASSIGNOR,
            members=[
                describing.Member(
                    member_id=member.member_id,
                    rack_id=member.profile.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.profile.client_id,
                    client_host=member.profile.client_host,
                    subscribed_topic_names=sorted(member.profile.topic_names),
                    assignment=describing.Assignment(
                        topic_partitions=[
                            describing.TopicPartitions(
                                topic_id=topic_id,
                                topic_name=topic.name,
                                partitions=sorted(member.assigned[topic_id]),
                            )
                            for topic_id in sorted(member.assigned)
                            if (topic := state.services.cluster.by_id(topic_id)) is not None
                        ]
                    ),
                )
                for member in state.members.values()
            ],
        )

    # Life.

    def on_loaded(self, now_ms: int) -> Outcome:
        session_ms = bounded(
            self.state.services.group_settings(self.group_id), share_session_timeout_ms
        )
        for member_id in self.state.members:
            self.state.volatile.deadlines.set(Due.SESSION, member_id, now_ms + session_ms)
        return initialization.on_topics_changed(self.state)

    def on_topics_changed(self, topics: Collection[str], now_ms: int) -> Outcome:
        """Forget topics that are gone. The next heartbeat compares the rest with the metadata."""
        self.state.volatile.is_checked = False
        return initialization.on_topics_changed(self.state)

    @property
    def has_nearer_deadline(self) -> bool:
        return self.state.volatile.deadlines.has_news

    def next_deadline_ms(self) -> int | None:
        return self.state.volatile.deadlines.next_ms()

    def on_tick(self, now_ms: int) -> Outcome:
        return heartbeat.on_overdue(self.state, now_ms)

    # Records.

    def replay(self, key: LogKey, value: LogValue | None) -> None:
        self.state.replay(key, value)
