"""A table of groups with a log that is a list: what the runtime does, without it.

at = Table()
at.do(commit(at.groups, ...))       # appended, replayed, settled
at.reloaded()                       # another table, made of the log
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moldau.broker.coordinator.group.commits import commit
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.outcome import LogRecord, Outcome
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.broker.decision.context import RequestContext
from moldau.broker.settings import ResourceSettings, group_settings
from moldau.errors.codes import KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.coordinator.classic.world import SmallWorld

HOUR_MS = 3_600_000


class OffsetWorld(SmallWorld):
    """Looks at the offsets of its table."""

    def __init__(self, named: Mapping[str, object], offsets: Offsets) -> None:
        super().__init__(named)
        self._offsets = offsets

    def has_offsets(self, group_id: str) -> bool:
        return self._offsets.has_any(group_id)

    def group_settings(self, group_id: str) -> ResourceSettings:
        return group_settings(group_id, {}, self.settings)


class Table:
    """See the module. Tickets are their own names."""

    def __init__(self, **named: object) -> None:
        self.named = {name.replace("_", "."): value for name, value in named.items()}
        self.log: list[tuple[int, LogRecord]] = []
        self.heard: dict[object, Any] = {}
        self.now_ms = 0
        self.groups = self._empty()
        assert self.groups.settle(self.now_ms) is None  # it is loaded

    def _empty(self) -> Groups:
        offsets = Offsets()
        return Groups(OffsetWorld(self.named, offsets), Kinds(), offsets)

    def context(self, version: int = 9) -> RequestContext:
        return RequestContext("client", "/127.0.0.1", version, "PLAINTEXT")

    def ask(self, ticket: str, decide: Callable[[], Outcome]) -> Any:
        """Decide, do it, and what the ticket heard; None while it is parked."""
        try:
            outcome = decide()
        except KafkaError as error:
            outcome = Outcome(answers=((ticket, error),))
        self.do(outcome)
        return self.heard.get(ticket)

    def do(self, outcome: Outcome, producer_id: int = NO_PRODUCER) -> None:
        self._one(outcome, producer_id)
        self._settle()

    def refuse(self, outcome: Outcome, error: KafkaError) -> None:
        """The log does not take it."""
        if outcome.on_failure is not None:
            outcome = outcome.on_failure(error, self.now_ms)
        assert not outcome.records or outcome.on_failure is None
        self.heard.update(outcome.answers)
        assert self.groups.is_settled or self.groups.settle(self.now_ms) is None

    def _settle(self) -> None:
        while not self.groups.is_settled:
            more = self.groups.settle(self.now_ms)
            if more is not None:
                self._one(more, NO_PRODUCER)

    def _one(self, outcome: Outcome, producer_id: int) -> None:
        for record in outcome.records:
            self._replay(self.groups, len(self.log), producer_id, record)
            self.log.append((producer_id, record))
        for ticket, answer in outcome.answers:
            assert ticket not in self.heard, "answered twice"
            self.heard[ticket] = answer

    def _replay(self, groups: Groups, at: int, producer_id: int, record: LogRecord) -> None:
        groups.replay(at, producer_id, record.key, record.value, self.now_ms)

    def reloaded(self) -> Groups:
        """What the log alone says."""
        groups = self._empty()
        for at, (producer_id, record) in enumerate(self.log):
            self._replay(groups, at, producer_id, record)
        while groups.settle(self.now_ms) is not None:
            pass
        return groups

    def pass_ms(self, count: int) -> None:
        """Time, and what becomes due in it."""
        end = self.now_ms + count
        while True:
            due = self.groups.next_deadline_ms()
            if due is None or due > end:
                break
            self.now_ms = max(self.now_ms, due)
            self.do(self.groups.on_tick(self.now_ms))
        self.now_ms = end

    # Requests.

    def commit(
        self, ticket: str, group: str, topic: str = "t", offset: int = 5, **more: Any
    ) -> Any:
        request = commit_request(group, topic, offset, **more)
        return self.ask(
            ticket,
            lambda: commit(self.groups, request, more.get("version", 9), ticket, self.now_ms),
        )

    def join(
        self,
        ticket: str,
        group: str,
        member: str = "",
        version: int = 3,
        *,
        session_ms: int = 10_000,
    ) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return self.ask(
            ticket,
            lambda: self.groups.on_join_group(request, self.context(version), ticket, self.now_ms),
        )

    def sync(self, ticket: str, group: str, member: str, generation: int) -> Any:
        """The leader's, who gives itself something."""
        own = SyncGroupRequestAssignment(member_id=member, assignment=b"all")
        request = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member, assignments=[own]
        )
        return self.ask(
            ticket,
            lambda: self.groups.on_sync_group(request, ticket, self.now_ms),
        )

    def beat(self, ticket: str, group: str, member: str, epoch: int, *topics: str) -> Any:
        """A heartbeat of KIP-848 that joins or leaves."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=list(topics) if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None,
        )
        context = self.context(1)
        return self.ask(
            ticket,
            lambda: self.groups.on_consumer_group_heartbeat(request, context, ticket, self.now_ms),
        )


def commit_request(
    group: str, topic: str = "t", offset: int = 5, **more: Any
) -> OffsetCommitRequest:
    """`more`: member, epoch, partition, metadata, retention_ms; nobody's commit without them."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=more.get("epoch", -1),
        member_id=more.get("member", ""),
        retention_time_ms=more.get("retention_ms", -1),
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=more.get("partition", 0),
                        committed_offset=offset,
                        committed_metadata=more.get("metadata", ""),
                    )
                ],
            )
        ],
    )
