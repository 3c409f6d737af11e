"""A classic group as its coordinator has it: what a member can tell of Kafka's, and nothing else.

`handle(request, reply, now)` answers at once or later; `tick(now)` lets time pass. Members are
known once they have joined; a rebalance ends when all known ones have joined again, or late ones
are thrown out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Reply = Callable[[Response], None]


@dataclass
class Seat:
    """A member as the coordinator has it."""

    member_id: str
    instance_id: str | None
    join: JoinGroupRequest
    last_seen: float
    joining: Reply | None = None
    syncing: Reply | None = None
    share: bytes = b""


@dataclass
class ClassicModel:
    """One group."""

    seats: dict[str, Seat] = field(default_factory=dict)
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    is_rebalancing: bool = False
    is_synced: bool = False
    deadline: float = 0.0
    made: int = 0
    expected: set[str] = field(default_factory=set)

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        """Answers now, or keeps `reply` for later."""
        self.tick(now)
        if isinstance(request, JoinGroupRequest):
            self._join(request, reply, now)
        elif isinstance(request, SyncGroupRequest):
            self._sync(request, reply, now)
        elif isinstance(request, HeartbeatRequest):
            reply(HeartbeatResponse(error_code=self._heartbeat(request, now)))
        else:
            assert isinstance(request, LeaveGroupRequest)
            for each in request.members:
                self._remove(each.member_id, now)
            reply(LeaveGroupResponse(error_code=0))

    def may_commit(self, member_id: str, generation: int) -> bool:
        """Whether these are a member and its generation."""
        return member_id in self.seats and generation == self.generation

    def next_deadline(self) -> float | None:
        """When something happens by itself."""
        times = [
            each.last_seen + each.join.session_timeout_ms / 1000
            for each in self.seats.values()
            if each.joining is None
        ]
        if self.is_rebalancing:
            times.append(self.deadline)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Members that were not heard of are thrown out, and so are those that join too late."""
        for each in list(self.seats.values()):
            timeout = each.join.session_timeout_ms / 1000
            if each.joining is None and now >= each.last_seen + timeout:
                self._remove(each.member_id, now)
        if self.is_rebalancing and now >= self.deadline:
            for each in list(self.seats.values()):
                if each.joining is None:
                    del self.seats[each.member_id]
            self._complete(now)

    def _join(self, request: JoinGroupRequest, reply: Reply, now: float) -> None:
        member_id, instance = request.member_id, request.group_instance_id
        if member_id and member_id not in self.seats and member_id not in self.expected:
            reply(_join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return
        if not member_id:
            self.made += 1
            member_id = f"new-{self.made}"
            if instance is None:
                self.expected.add(member_id)
                reply(_join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
            for old in [each for each in self.seats.values() if each.instance_id == instance]:
                del self.seats[old.member_id]
        self.expected.discard(member_id)
        seat = self.seats.get(member_id)
        if seat is None:
            seat = self.seats[member_id] = Seat(member_id, instance, request, now)
        seat.join, seat.joining, seat.last_seen = request, reply, now
        self._rebalance(now)
        if all(each.joining is not None for each in self.seats.values()):
            self._complete(now)

    def _rebalance(self, now: float) -> None:
        if self.is_rebalancing:
            return
        self.is_rebalancing, self.is_synced = True, False
        timeouts = [each.join.rebalance_timeout_ms for each in self.seats.values()]
        self.deadline = now + max(timeouts, default=0) / 1000
        for each in self.seats.values():
            if each.syncing is not None:
                each.syncing(_sync(ErrorCode.REBALANCE_IN_PROGRESS))
                each.syncing = None

    def _complete(self, now: float) -> None:
        self.is_rebalancing = False
        self.generation += 1
        if not self.seats:
            return
        self.leader = self.leader if self.leader in self.seats else min(self.seats)
        common = [
            name.name
            for name in self.seats[self.leader].join.protocols
            if all(
                any(other.name == name.name for other in each.join.protocols)
                for each in self.seats.values()
            )
        ]
        self.protocol = common[0]
        for each in self.seats.values():
            assert each.joining is not None
            each.last_seen = now
            reply, each.joining, each.share = each.joining, None, b""
            reply(self._joined(each))

    def _joined(self, seat: Seat) -> JoinGroupResponse:
        members = [
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=next(
                    bytes(p.metadata) for p in each.join.protocols if p.name == self.protocol
                ),
            )
            for each in self.seats.values()
        ]
        return JoinGroupResponse(
            error_code=0,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=seat.member_id,
            members=members if seat.member_id == self.leader else [],
        )

    def _sync(self, request: SyncGroupRequest, reply: Reply, now: float) -> None:
        error = self._known(request.member_id, request.generation_id)
        if error or self.is_rebalancing:
            reply(_sync(error or ErrorCode.REBALANCE_IN_PROGRESS))
            return
        seat = self.seats[request.member_id]
        seat.last_seen, seat.syncing = now, reply
        if request.member_id == self.leader and not self.is_synced:
            self.is_synced = True
            for share in request.assignments:
                if share.member_id in self.seats:
                    self.seats[share.member_id].share = bytes(share.assignment)
        if self.is_synced:
            for each in self.seats.values():
                if each.syncing is not None:
                    waiting, each.syncing, each.last_seen = each.syncing, None, now
                    waiting(_sync(ErrorCode.NONE, each.share))

    def _heartbeat(self, request: HeartbeatRequest, now: float) -> int:
        error = self._known(request.member_id, request.generation_id)
        if error:
            return error
        self.seats[request.member_id].last_seen = now
        return ErrorCode.REBALANCE_IN_PROGRESS if self.is_rebalancing else 0

    def _known(self, member_id: str, generation: int) -> ErrorCode:
        if member_id not in self.seats:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def _remove(self, member_id: str, now: float) -> None:
        if self.seats.pop(member_id, None) is None:
            return
        self._rebalance(now)
        if all(each.joining is not None for each in self.seats.values()):
            self._complete(now)


def _join_error(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name="", leader="", member_id=member_id, members=[]
    )


def _sync(code: ErrorCode, share: bytes = b"") -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=share)
