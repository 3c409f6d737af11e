"""A member of a share group (KIP-932): one kind of heartbeat sends and returns everything. No IO.

    OUT --> JOINING --> STABLE --> LEAVING --> OUT
               ^           |
               +-- fenced -+

The coordinator may give one partition to many members, so nothing has to be given up before another
member reads it: a new target is simply read from now on. The member makes its own id and keeps it.
A member that is fenced joins again with epoch 0; its locks end by themselves.

A heartbeat that failed is sent again after a back-off, with everything in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.client.group.member import Ask, MemberSettings, Ready, Retries, in_words
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import Uuid
from moldau.protocol.declare import Response
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from random import Random

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_LOOK_S: Final = 0.02
"""A new group gets its partitions when their state was written, which takes a moment: a member
without any asks again soon, and then ever later up to the interval."""
_FENCED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH))
_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: "the broker has no share groups: it needs moldau, or Apache "
    "Kafka 4.2 with share.version=1",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's "
    "group.share.max.size allows",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group is of another type: choose another group",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group is of another type: choose another group",
}


class ShareMemberState(Enum):
    """The state of the member; see the module's text."""

    OUT = "out"
    JOINING = "joining"
    STABLE = "stable"
    LEAVING = "leaving"


TRANSITIONS: Final[Mapping[ShareMemberState, frozenset[ShareMemberState]]] = {
    ShareMemberState.OUT: frozenset((ShareMemberState.JOINING,)),
    ShareMemberState.JOINING: frozenset(ShareMemberState),
    ShareMemberState.STABLE: frozenset(ShareMemberState),
    ShareMemberState.LEAVING: frozenset((ShareMemberState.OUT,)),
}


class ShareMember:
    """One member of a share group. Invariant: `target` is what the coordinator last assigned, and
    empty while the member is not in the group."""

    def __init__(
        self, terms: MemberSettings, topics: frozenset[str], member_id: str, random: Random
    ) -> None:
        """Use `member_id`, the text of a random UUID."""
        self.terms = terms
        self.state = ShareMemberState.OUT
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.target: Mapping[Uuid, tuple[int, ...]] = {}
        self.extensions = 0
        """What the broker has beyond Kafka; 0 on Apache Kafka."""
        self.notices: list[MoldauError] = []
        """What the shell must log, and then remove."""
        self._topics = topics
        self._told = topics
        """The topics of the last heartbeat that named them."""
        self._retries = Retries(terms.backoff, random)
        self._asked: Ask | None = None
        self._soon_s = _LOOK_S
        """When to ask again while nothing is assigned."""
        self._next_heartbeat = 0.0
        self._tells_all = True
        self._error: KafkaError | None = None

    @property
    def is_out(self) -> bool:
        """Whether it is not in the group, and sends nothing."""
        return self.state is ShareMemberState.OUT

    def _go(self, state: ShareMemberState) -> None:
        assert state is self.state or state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    def join(self) -> None:
        """Join the group from the next heartbeat on."""
        self.epoch = JOIN_EPOCH
        self.target = {}
        self._tells_all = True
        self._next_heartbeat = 0.0
        self._go(ShareMemberState.JOINING)

    def subscribe(self, topics: frozenset[str]) -> None:
        """Read these topics from the next heartbeat on. Without any it stays as it is, and does not
        join yet."""
        if topics and topics != self._topics:
            self._topics = topics
            self._tells_all = True
            self._next_heartbeat = 0.0

    def leave(self) -> None:
        """Leave the group with the next heartbeat."""
        self.target = {}
        if not self.is_out:
            self._go(ShareMemberState.LEAVING)

    def take_error(self) -> KafkaError | None:
        """Return the error that ended the membership, once."""
        error, self._error = self._error, None
        return error

    def ready(self, now: float) -> Ready:
        """Return the next heartbeat, or when to come back."""
        if self._asked is not None or self.is_out:
            return Ready()
        if self.state is not ShareMemberState.LEAVING:
            if not self._topics:
                return Ready()
            due = max(self._next_heartbeat, self._retries.not_before)
            if now < due:
                return Ready(wake=due)
        self._asked = Ask(self._heartbeat(), ShareGroupHeartbeatResponse)
        return Ready(self._asked)

    def _heartbeat(self) -> ShareGroupHeartbeatRequest:
        leaves = self.state is ShareMemberState.LEAVING
        request = ShareGroupHeartbeatRequest(
            group_id=self.terms.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if leaves else self.epoch,
        )
        if self._tells_all and not leaves:
            request.rack_id = self.terms.rack
            request.subscribed_topic_names = sorted(self._topics)
            self._told = self._topics
        return request

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        """Apply the coordinator's answer, or the failure to get one."""
        assert self._asked is not None, "nothing was asked"
        asked, self._asked = self._asked, None
        assert isinstance(asked.request, ShareGroupHeartbeatRequest)
        if asked.request.member_epoch == LEAVE_EPOCH:
            self._go(ShareMemberState.OUT)
        elif self.state is ShareMemberState.LEAVING or asked.request.member_epoch != self.epoch:
            return
        elif isinstance(answer, KafkaError):
            self._refused(answer.code, answer.reason, now)
        else:
            assert isinstance(answer, ShareGroupHeartbeatResponse)
            if answer.error_code:
                self._refused(ErrorCode(answer.error_code), answer.error_message or "", now)
            else:
                self._accepted(answer, now)

    def _accepted(self, answer: ShareGroupHeartbeatResponse, now: float) -> None:
        self._retries.worked()
        self._tells_all = self._told != self._topics
        self.epoch = answer.member_epoch
        self.extensions = answer.share_extensions
        self._go(ShareMemberState.STABLE)
        if answer.assignment is not None:
            assigned = answer.assignment.topic_partitions
            self.target = {each.topic_id: tuple(each.partitions) for each in assigned}
        interval_s = answer.heartbeat_interval_ms / 1000
        self._soon_s = _LOOK_S if self.target else min(interval_s, self._soon_s * 2)
        after_s = interval_s if self.target else self._soon_s
        self._next_heartbeat = now if self._tells_all else now + after_s

    def _refused(self, code: ErrorCode, reason: str, now: float) -> None:
        self._tells_all = True
        if code in _FENCED:
            self.notices.append(
                MoldauError(
                    "the coordinator has fenced this member, which joins again; what it held is "
                    "given to others",
                    group=self.terms.group_id,
                )
            )
            self.join()
            self._retries.put_off(now)
        elif code.retriable:
            self._retries.put_off(now)
        else:
            self._error = in_words(
                error_from("ShareGroupHeartbeat", code, reason), self.terms, _HINTS
            )
            self.target = {}
            self._go(ShareMemberState.OUT)
