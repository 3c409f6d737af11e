"""A KIP-848 group as its coordinator has it: epochs, a target, and who still holds what.

Partitions are dealt in turn to the members in order of their ids; a member is given one only when
its last owner has told that he does not own it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Reply = Callable[[Response], None]
Held = set[tuple[Uuid, int]]
INTERVAL_MS = 1_000
SESSION_S = 10.0


@dataclass
class Seat:
    """A member as the coordinator has it."""

    member_id: str
    last_seen: float
    epoch: int = 0
    names: tuple[str, ...] = ()
    assigned: Held = field(default_factory=set)
    giving_up: Held = field(default_factory=set)


@dataclass
class ConsumerModel:
    """One group. `topics`: by name, the id and how many partitions."""

    topics: Mapping[str, tuple[Uuid, int]]
    seats: dict[str, Seat] = field(default_factory=dict)
    epoch: int = 0

    def handle(self, request: Request, reply: Reply, now: float) -> None:
        """Answers at once."""
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        self.tick(now)
        reply(self._heartbeat(request, now))

    def may_commit(self, member_id: str, epoch: int) -> bool:
        """Whether these are a member and its epoch."""
        return member_id in self.seats and epoch == self.seats[member_id].epoch

    def next_deadline(self) -> float | None:
        """When somebody's session ends."""
        return min((each.last_seen + SESSION_S for each in self.seats.values()), default=None)

    def tick(self, now: float) -> None:
        """Members that were not heard of are fenced."""
        for each in list(self.seats.values()):
            if now >= each.last_seen + SESSION_S:
                self._remove(each.member_id)

    def _remove(self, member_id: str) -> None:
        if self.seats.pop(member_id, None) is not None:
            self.epoch += 1

    def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, now: float
    ) -> ConsumerGroupHeartbeatResponse:
        member_id = request.member_id
        if request.member_epoch < 0:
            self._remove(member_id)
            return _answer(member_id, request.member_epoch)
        seat = self.seats.get(member_id)
        if seat is None or request.member_epoch == 0:
            if request.member_epoch:
                return _answer(member_id, 0, ErrorCode.UNKNOWN_MEMBER_ID)
            assert request.topic_partitions == [], "who joins owns nothing"
            assert request.rebalance_timeout_ms > 0
            seat = self.seats[member_id] = Seat(member_id, now)
            self.epoch += 1
        elif request.member_epoch != seat.epoch:
            return _answer(member_id, 0, ErrorCode.FENCED_MEMBER_EPOCH)
        seat.last_seen = now
        names = request.subscribed_topic_names
        if names is not None and tuple(names) != seat.names:
            seat.names = tuple(names)
            self.epoch += 1
        has_changed = self._reconcile(seat, request.topic_partitions)
        # Who tells everything, as after a lost answer, is told everything.
        is_full = request.rebalance_timeout_ms >= 0 and request.topic_partitions is not None
        is_told = has_changed or is_full
        return _answer(
            member_id, seat.epoch, assignment=_assignment(seat.assigned) if is_told else None
        )

    def _reconcile(self, seat: Seat, owned: list[TopicPartitions] | None) -> bool:
        if owned is not None:
            told = {(each.topic_id, index) for each in owned for index in each.partitions}
            seat.giving_up &= told
        if seat.giving_up:
            return False
        target = self._target()[seat.member_id]
        before = set(seat.assigned)
        if seat.assigned - target:
            seat.giving_up = seat.assigned - target
            seat.assigned &= target
            return True
        held = {
            where
            for each in self.seats.values()
            if each is not seat
            for where in each.assigned | each.giving_up
        }
        seat.assigned |= target - held
        seat.epoch = self.epoch
        return seat.assigned != before

    def _target(self) -> dict[str, Held]:
        target: dict[str, Held] = {member: set() for member in self.seats}
        turn = 0
        for name, (topic_id, count) in sorted(self.topics.items()):
            takers = [each for each in sorted(self.seats) if name in self.seats[each].names]
            for index in range(count if takers else 0):
                target[takers[turn % len(takers)]].add((topic_id, index))
                turn += 1
        return target


def _assignment(held: Held) -> Assignment:
    by_id: dict[Uuid, list[int]] = {}
    for topic_id, index in sorted(held):
        by_id.setdefault(topic_id, []).append(index)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=each, partitions=found) for each, found in by_id.items()
        ]
    )


def _answer(
    member_id: str,
    epoch: int,
    code: ErrorCode = ErrorCode.NONE,
    assignment: Assignment | None = None,
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=assignment,
    )
