"""The state machine of one node: the pure core of Raft, in Kafka's words.

Invariants, which the simulator checks after every step:
- an epoch has one leader: a node gives one vote an epoch, and a majority elects;
- a leader holds every record that was ever committed: no node votes for a shorter log;
- records below the high watermark never change: it advances only over records that a majority
  holds, the last of which has the leader's own epoch;
- every promise is durable: messages and answers leave only in a `Ready`, and the shell saves that
  before it sends anything from it. So the core may count its own records at once, although they
  are not on disk yet.

Time comes as an argument, randomness through the constructor; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from examples.replicated_log.leadership import Leadership
from examples.replicated_log.log import Log
from examples.replicated_log.messages import (
    NO_EPOCH,
    NO_OFFSET,
    NOBODY,
    AppendRequest,
    AppendResponse,
    PeerMessage,
    ProduceResponse,
    Record,
    VoteRequest,
    VoteResponse,
)


class Role(Enum):
    """The role of a node in its epoch."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


TRANSITIONS = {
    Role.FOLLOWER: {Role.FOLLOWER, Role.CANDIDATE},  # a new epoch; nothing heard from a leader
    Role.CANDIDATE: {Role.FOLLOWER, Role.CANDIDATE, Role.LEADER},  # beaten; no majority; elected
    Role.LEADER: {Role.FOLLOWER},  # a higher epoch
}


@dataclass(frozen=True, slots=True)
class Vote:
    """What must survive besides records: the epoch, and the candidate that got the vote in it."""

    epoch: int = NO_EPOCH
    candidate: int = NOBODY


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds. A node waits for a leader for one to two election timeouts, drawn anew."""

    heartbeat_ms: int = 150
    election_ms: int = 600


@dataclass(slots=True)
class Ready:
    """What the shell must do, in this order.

    Save the vote; truncate the log; append the records; make it all durable. Only then send and
    answer. It is never modified; it is not frozen because creating it would take three times as
    long.
    """

    vote: Vote | None
    truncate_to: int | None
    records: Sequence[Record]
    needs_disk: bool
    """Whether anything must be saved before anything may be sent."""
    messages: Sequence[tuple[int, PeerMessage]]
    answers: Sequence[tuple[object, ProduceResponse]]


class Replica:
    """The state machine. Call `on_...` for each event, then carry out `take_ready()`."""

    leadership_class = Leadership
    records_per_request = 64

    def __init__(
        self,
        number: int,
        voters: Sequence[int],
        saved: tuple[Vote, Sequence[Record]],
        random: Random,
        timing: Timing,
    ) -> None:
        assert number in voters
        vote, records = saved
        self.number = number
        self.others = [voter for voter in voters if voter != number]
        self.vote = vote
        self.epoch = vote.epoch
        """The highest epoch that this node knows."""
        self.log = Log(records)
        self.role = Role.FOLLOWER
        self.leader = NOBODY
        self.high_watermark = 0
        self.deadline_ms = 0
        self._patience_ms = 0
        self._majority = len(voters) // 2 + 1
        self._random = random
        self._timing = timing
        self._voters_for_us: set[int] = set()
        self._office: Leadership | None = None
        self._saved_vote = vote
        self._saved_end = self.log.end
        self._truncate_to: int | None = None
        self._messages: list[tuple[int, PeerMessage]] = []
        self._answers: list[tuple[object, ProduceResponse]] = []

    # What happens.

    def start(self, now_ms: int) -> None:
        """The node is up: wait for a leader."""
        self._wait_for_leader(now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Time has passed. Do nothing before `deadline_ms`."""
        if now_ms < self.deadline_ms:
            return
        if self.role is Role.LEADER:
            self._send_heartbeats(now_ms)
        else:
            self._stand_for_election(now_ms)

    def on_message(self, message: PeerMessage, now_ms: int) -> None:
        """Handle a message of another node, which may be old."""
        if message.epoch > self.epoch:
            self._enter_epoch(message.epoch, now_ms)
        if type(message) is AppendRequest:
            self._on_append_request(message, now_ms)
        elif type(message) is AppendResponse:
            self._on_append_response(message)
        elif type(message) is VoteRequest:
            self._on_vote_request(message, now_ms)
        elif type(message) is VoteResponse:
            self._on_vote_response(message, now_ms)

    def on_produce(self, client: object, value: bytes, now_ms: int) -> None:
        """A client sends `value` to store. The answer comes in a later `Ready`."""
        if self._office is None:
            self._answer(client, NO_OFFSET)
            return
        offset = self.log.append(Record(epoch=self.epoch, value=value))
        self._office.wait(offset, client)
        self._replicate(now_ms)
        if not self.others:
            self._advance()

    def read(self, offset: int) -> list[Record]:
        """Return committed records from `offset` on, as many as fit into one message."""
        end = min(self.high_watermark, max(offset, 0) + self.records_per_request)
        return self.log.records[max(offset, 0) : end]

    def take_ready(self) -> Ready:
        """Return everything to do since the last call."""
        vote, log, truncate_to = self.vote, self.log, self._truncate_to
        messages, answers = self._messages, self._answers
        self._messages, self._answers = [], []
        is_voted, saved_end = vote is self._saved_vote, self._saved_end
        if is_voted and log.end == saved_end and truncate_to is None:
            return Ready(None, None, (), False, messages, answers)
        self._saved_vote, self._saved_end, self._truncate_to = vote, log.end, None
        records = log.records[saved_end:]
        return Ready(None if is_voted else vote, truncate_to, records, True, messages, answers)

    # Elections.

    def _stand_for_election(self, now_ms: int) -> None:
        self._become(Role.CANDIDATE)
        self._set_vote(Vote(self.epoch + 1, self.number))
        self.leader = NOBODY
        self._voters_for_us = {self.number}
        self._wait_for_leader(now_ms)
        for other in self.others:
            request = VoteRequest(
                epoch=self.epoch,
                candidate=self.number,
                last_epoch=self.log.last_epoch,
                log_end=self.log.end,
            )
            self._messages.append((other, request))
        self._count_votes(now_ms)

    def _on_vote_request(self, request: VoteRequest, now_ms: int) -> None:
        is_granted = self._deserves_vote(request)
        if is_granted:
            if self.vote.candidate != request.candidate:
                self._set_vote(Vote(self.epoch, request.candidate))
            self._wait_for_leader(now_ms)
        response = VoteResponse(epoch=self.epoch, voter=self.number, is_granted=is_granted)
        self._messages.append((request.candidate, response))

    def _deserves_vote(self, request: VoteRequest) -> bool:
        return (
            request.epoch == self.epoch
            and self.vote.candidate in (NOBODY, request.candidate)
            and self._is_up_to_date(request)
        )

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """Whether the candidate's log has everything that may be committed, as far as we know."""
        return (request.last_epoch, request.log_end) >= (self.log.last_epoch, self.log.end)

    def _on_vote_response(self, response: VoteResponse, now_ms: int) -> None:
        if response.epoch == self.epoch and response.is_granted and self.role is Role.CANDIDATE:
            self._voters_for_us.add(response.voter)
            self._count_votes(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        if len(self._voters_for_us) >= self._majority:
            self._take_office(now_ms)

    def _take_office(self, now_ms: int) -> None:
        self._become(Role.LEADER)
        self.leader = self.number
        self._office = self.leadership_class(self.others, self.log.end)
        self.log.append(Record(epoch=self.epoch, value=b""))  # see _may_keep
        self._send_heartbeats(now_ms)
        self._advance()

    def _enter_epoch(self, epoch: int, now_ms: int) -> None:
        self._become(Role.FOLLOWER)
        self._set_vote(Vote(epoch))
        self.leader = NOBODY
        self._wait_for_leader(now_ms)

    def _set_vote(self, vote: Vote) -> None:
        self.vote = vote
        self.epoch = vote.epoch

    def _become(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"{self.role} -> {role}"
        self.role = role
        office, self._office = self._office, None
        if office is not None:
            for _, client in office.take_all():
                self._answer(client, NO_OFFSET)

    def _wait_for_leader(self, now_ms: int) -> None:
        """Set the deadline for an election. Draw its timeout anew if no leader is known."""
        if self.leader == NOBODY:
            self._patience_ms = round(self._timing.election_ms * (1 + self._random.random()))
        self.deadline_ms = now_ms + self._patience_ms

    # Followers.

    def _on_append_request(self, request: AppendRequest, now_ms: int) -> None:
        if self._is_stale(request):
            self._respond(request, is_accepted=False, log_end=self.log.end)
            return
        if self.role is not Role.FOLLOWER:
            assert self.role is not Role.LEADER, "two leaders in one epoch"
            self._become(Role.FOLLOWER)
        self.leader = request.leader
        self._wait_for_leader(now_ms)
        base = request.base_offset
        if not self.log.matches(base, request.previous_epoch):
            retry = self.log.start_of_epoch_before(base) if base <= self.log.end else self.log.end
            self._respond(request, is_accepted=False, log_end=retry)
            return
        end = self._take(base, request.records)
        kept = min(request.high_watermark, end)
        if kept > self.high_watermark:
            self.high_watermark = kept
        self._respond(request, is_accepted=True, log_end=end)

    def _is_stale(self, request: AppendRequest) -> bool:
        """Whether the request comes from the leader of an earlier epoch."""
        return request.epoch < self.epoch

    def _take(self, base: int, records: Sequence[Record]) -> int:
        """Make the log equal to the leader's, below the offset that is returned."""
        for offset, record in enumerate(records, base):
            if offset < self.log.end:
                if self.log.matches(offset + 1, record.epoch):
                    continue  # we have it; what follows it may be newer than this message
                self._cut(offset)
            self.log.append(record)
        return base + len(records)

    def _cut(self, offset: int) -> None:
        assert offset >= self.high_watermark, "what is kept for good is never cut"
        self.log.truncate(offset)
        if offset < self._saved_end:
            self._saved_end = self._truncate_to = offset

    def _respond(self, request: AppendRequest, *, is_accepted: bool, log_end: int) -> None:
        response = AppendResponse(
            epoch=self.epoch,
            follower=self.number,
            base_offset=request.base_offset,
            is_accepted=is_accepted,
            log_end=log_end,
        )
        self._messages.append((request.leader, response))

    # Leaders.

    def _on_append_response(self, response: AppendResponse) -> None:
        if self._office is None or response.epoch != self.epoch:
            return
        follower = self._office.followers[response.follower]
        if response.is_accepted:
            follower.on_accepted(response.base_offset, response.log_end)
            if follower.match > self.high_watermark:
                self._advance()
        else:
            follower.on_refused(response.base_offset, response.log_end)
        if follower.asked is None and follower.next_offset < self.log.end:
            self._send_records([response.follower])

    def _advance(self) -> None:
        """Advance the high watermark over what a majority holds, and answer the waiting clients."""
        office = self._office
        if office is None:
            return
        end = office.majority_end(self.log.end)
        if end > self.high_watermark and self._may_keep(end):
            self.high_watermark = end
            for offset, client in office.take_answerable(end):
                self._answer(client, offset)

    def _may_keep(self, end: int) -> bool:
        """Whether the last record has our epoch: earlier epochs are committed only with it."""
        return self.log.epoch_before(end) == self.epoch

    def _send_heartbeats(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self._timing.heartbeat_ms
        self._send_records(self.others)

    def _replicate(self, now_ms: int) -> None:
        """Send new records to the followers without an unanswered request."""
        assert self._office is not None
        idle = [number for number, each in self._office.followers.items() if each.asked is None]
        self._send_records(idle)
        if len(idle) == len(self.others):
            self.deadline_ms = now_ms + self._timing.heartbeat_ms  # each gets a request now

    def _send_records(self, numbers: Iterable[int]) -> None:
        """Send each follower its next records, which are mostly the same for all."""
        assert self._office is not None
        followers, messages, request, sent_from = self._office.followers, self._messages, None, -1
        for number in numbers:
            follower = followers[number]
            base = follower.next_offset
            if request is None or base != sent_from:
                request, sent_from = self._request_from(base), base
            follower.asked = (base, base + len(request.records))
            messages.append((number, request))

    def _request_from(self, base: int) -> AppendRequest:
        return AppendRequest(
            epoch=self.epoch,
            leader=self.number,
            base_offset=base,
            previous_epoch=self.log.epoch_before(base),
            high_watermark=self.high_watermark,
            records=self.log.records[base : base + self.records_per_request],
        )

    def _answer(self, client: object, offset: int) -> None:
        self._answers.append((client, ProduceResponse(offset=offset, leader=self.leader)))
