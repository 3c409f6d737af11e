"""A member of a consumer group (KIP-848): topic partitions by the id of their topic. No IO.

It lives by heartbeats (`heartbeats`) under an id that it makes itself (KIP-1082). If the group no
longer exists, because it became a classic one with its last member of this protocol, the member is
fenced as well. Topics come by id: unknown names are looked up, without holding up the other topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.group.heartbeats import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    OWNED,
    HeartbeatMember,
    HeartbeatState,
)
from moldau.client.group.member import (
    FENCED,
    Change,
    Kind,
    MemberSettings,
    Ready,
    reassigned,
)
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from random import Random

_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not speak the consumer group protocol (or no "
    "patterns in it): set group.protocol=classic",
    ErrorCode.FENCED_INSTANCE_ID: FENCED,
    ErrorCode.UNRELEASED_INSTANCE_ID: "another member has this group.instance.id and has not left. "
    "Give each consumer its own; if the other one has crashed, the id is free when its session "
    "ends (the broker's group.consumer.session.timeout.ms), and the next poll tries to join again",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no assignor of the name in "
    "group.remote.assignor",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's "
    "group.consumer.max.size allows",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group is of another type",
}


class ConsumerMember(HeartbeatMember):
    """One member of a consumer group."""

    response: ClassVar[type[Response]] = ConsumerGroupHeartbeatResponse
    api: ClassVar[str] = "ConsumerGroupHeartbeat"
    hints: ClassVar[Mapping[ErrorCode, str]] = _HINTS
    session_setting: ClassVar[str] = "group.consumer.session.timeout.ms"

    def __init__(self, terms: MemberSettings, member_id: str, random: Random) -> None:
        """Use `member_id`, the text of a random UUID."""
        super().__init__(terms, member_id, random)
        self._target: dict[Uuid, list[int]] = {}
        self._names: dict[Uuid, str] = {}
        self._ids: dict[str, Uuid] = {}
        """The ids of the topics in the target."""
        self._owned_ids: dict[TopicPartition, Uuid] = {}
        self._unknown = frozenset[Uuid]()

    # Heartbeats

    def _request(self, epoch: int, news: Mapping[str, Any]) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.terms.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.terms.instance_id,
        )
        for name, each in news.items():
            if name == OWNED:
                request.topic_partitions = [
                    TopicPartitions(topic_id=topic, partitions=list(found)) for topic, found in each
                ]
            elif name == "subscribed_topic_regex":
                request.subscribed_topic_regex = each or ""
            else:
                setattr(request, name, list(each) if isinstance(each, tuple) else each)
        return request

    def _parting(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self.terms.instance_id is not None
        stays = is_static and self.terms.leaves_when_closed is None
        return self._request(LEAVE_STATIC_EPOCH if stays else LEAVE_EPOCH, {})

    def _report(self) -> dict[str, object]:
        return {
            "rebalance_timeout_ms": round(self.terms.poll_interval_s * 1000),
            "server_assignor": self.terms.remote_assignor,
            "rack_id": self.terms.rack,
            "subscribed_topic_names": tuple(sorted(self.wanted.topics)),
            "subscribed_topic_regex": self.wanted.pattern,
        }

    def _owned_report(self) -> tuple[tuple[Uuid, tuple[int, ...]], ...]:
        if self.state is HeartbeatState.JOINING:
            return ()
        by_id: dict[Uuid, list[int]] = {}
        for where, each in self._owned_ids.items():
            by_id.setdefault(each, []).append(where.partition)
        return tuple((each, tuple(sorted(by_id[each]))) for each in sorted(by_id))

    def _take_target(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        if answer.assignment is None:
            return False
        told = answer.assignment.topic_partitions
        self._target = {each.topic_id: sorted(each.partitions) for each in told}
        return True

    def _forget_target(self) -> None:
        self._target = {}
        self._unknown = frozenset()

    # Names

    def _look_up(self) -> Ready | None:
        return Ready(ids=self._unknown, wake=self._next_heartbeat) if self._unknown else None

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Apply names of topics; they may be more or fewer than requested."""
        self._names |= names
        if self._unknown & names.keys():
            # Do this even while a change runs: else known names would be requested again, which
            # is answered at once, in an endless loop.
            self._unknown -= names.keys()
            self._reconcile()
        elif self._unknown:
            self._retries.put_off(now)

    # Getting there

    def _reconcile(self) -> None:
        if self.state is not HeartbeatState.RECONCILING or self._running is not None:
            return
        self._unknown = frozenset(self._target.keys() - self._names.keys())
        self._ids = {self._names[each]: each for each in self._target if each in self._names}
        known = {
            TopicPartition(name, index): each
            for name, each in self._ids.items()
            for index in self._target[each]
        }
        # A topic that was deleted and created again shares only its name with the old one.
        gone = [
            where
            for where, each in self._owned_ids.items()
            if self._ids.get(where.topic, each) != each
        ]
        left = tuple(each for each in self.owned if each not in gone)
        giving_up, taking = reassigned(left, known)
        taking = replace(taking, ids=known)
        if taking.partitions and self._is_reporting_owned():
            return  # its response calls this method again
        changes = [Change(Kind.LOST, tuple(gone), left)] if gone else []
        changes += [] if giving_up is None else [giving_up]
        if changes or taking.partitions:
            self._plan(*changes, taking)
        else:
            self._plan()
            self._acknowledge()

    def _changed(self, now: float) -> None:
        known = self._owned_ids
        self._owned_ids = {each: known.get(each) or self._ids[each.topic] for each in self.owned}
        if self.state is HeartbeatState.FENCED:
            self._join_unless_changing()
        elif not self._changes:
            self._reconcile()

    def _acknowledge(self) -> None:
        """Report the target as reached, or as far as topic names are known."""
        if not self._unknown:
            super()._acknowledge()
        elif self._reported.get(OWNED) != self._owned_report():
            self._next_heartbeat = 0.0
