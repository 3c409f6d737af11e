"""One replica's part in the agreement on the metadata log: the pure core of KRaft.

Followers pull (Fetch), and their fetches report their log ends to the leader. Votes, the begin and
the end of an epoch are pushed. A candidate asks first whether it would win (pre-vote, KIP-996), so
that a replica that was disconnected disturbs no leader when it comes back.

Invariants:
* an epoch has one leader: a replica grants one vote in an epoch, and a majority elects;
* a leader holds every committed record: no voter votes for a log that ends earlier than its own,
  and a voter that may have forgotten its log follows `empty_disk`;
* epoch and vote are durable before they are sent: messages leave in a `Ready`, and the
  shell saves `Ready.state` before it sends `Ready.requests` or the answer to an `on_...` call;
* records below the high watermark are never truncated.

Time is an argument, and randomness comes from the constructor. Nothing here waits or writes: the
log is read through `LogView`, and an outcome says what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.broker.log.leader_epochs import EpochEnd
from moldau.broker.raft.empty_disk import EmptyDisk, LogEnd, VoterEnd
from moldau.broker.raft.leader import Leader, compare
from moldau.broker.raft.messages import (
    NOBODY,
    AnotherLeader,
    BeginEpoch,
    Divergence,
    EndEpoch,
    EpochAnswer,
    FetchAsk,
    FetchVerdict,
    Notice,
    PeerAnswer,
    PeerRequest,
    VoteAnswer,
    VoteAsk,
)
from moldau.broker.raft.quorum_state import QuorumState
from moldau.broker.raft.snapshots import SnapshotId
from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from random import Random

    from moldau.broker.raft.voters import Voters

NEVER: Final = 1 << 62


class Role(Enum):
    """The role of a replica in its epoch."""

    UNATTACHED = "knows no leader"
    FOLLOWER = "follows the leader"
    PROSPECTIVE = "asks whether it would be elected"
    CANDIDATE = "asks for votes"
    LEADER = "leads"
    RESIGNED = "led in this epoch, and does no more"


TRANSITIONS: Final = {
    Role.UNATTACHED: set(Role) - {Role.CANDIDATE, Role.LEADER, Role.RESIGNED},
    Role.FOLLOWER: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE},
    Role.PROSPECTIVE: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE},
    Role.CANDIDATE: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER},
    Role.LEADER: {Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED},
    Role.RESIGNED: {Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE},
}


class LogView(Protocol):
    """The properties of the replica's log that the core reads."""

    @property
    def log_end_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the newest snapshot without one; 0 at the start."""
        ...

    @property
    def high_watermark(self) -> int: ...
    @property
    def newest_snapshot(self) -> SnapshotId | None: ...
    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch that is not above `epoch`, and its end; -1 and -1 if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class RaftTimeouts:
    """Timeouts in milliseconds. Random ones are drawn between once and twice the value."""

    election_ms: int = 1000
    backoff_ms_max: int = 1000
    fetch_ms: int = 2000
    notice_ms: int = 150
    """The longest delay until a lost connection to the leader counts as the leader's end."""


@dataclass(frozen=True, slots=True)
class Member:
    """This replica, and the voters that it knows. An observer reads the log and does not vote.

    A voter is a node with its disk (KIP-853): a node whose disk was replaced has forgotten how it
    voted, so it is an observer until it is added again.
    """

    node_id: int
    voters: tuple[int, ...]
    directory_id: Uuid = ZERO_UUID
    directories: Mapping[int, Uuid] = field(default_factory=dict)
    """The disks of the voters, if the log names them."""
    is_dynamic: bool = False
    """Whether the log names the voters. Replicas may then know different voters."""
    bootstrap: tuple[int, ...] = ()
    """Peers that know the leader. Their ids are not known, so they have made-up numbers."""
    has_empty_disk: bool = False
    """Whether it started with an empty disk, and has not caught up since: see `empty_disk`."""

    @property
    def is_voter(self) -> bool:
        known = self.directories.get(self.node_id, ZERO_UUID)
        is_same_disk = ZERO_UUID in (known, self.directory_id) or known == self.directory_id
        return self.node_id in self.voters and is_same_disk


class SoftState(NamedTuple):
    """The state that is not saved: it is lost with the process."""

    role: Role
    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do after a step, in this order: end the leadership, save the state, begin
    to lead, remove the mark of the empty disk, send the requests, log the notices, use the soft
    state."""

    has_resigned: bool = False
    """Whether the replica led, as an earlier `Ready` said, and does not any more."""
    state: QuorumState | None = None
    elected_by: tuple[int, ...] | None = None
    """Set on election: append the epoch's first record, which names these voters."""
    has_caught_up: bool = False
    """Whether the disk that was empty now holds all committed records, durably."""
    requests: tuple[tuple[int, PeerRequest], ...] = ()
    notices: tuple[Notice, ...] = ()
    soft: SoftState | None = None
    """The new soft state, if it has changed."""
    has_new_leader: bool = False
    """Whether there is another leader, or another epoch."""


class AfterFetch(Enum):
    """The next action of a follower after the answer to its fetch."""

    NOTHING = "the answer is late or an error"
    APPEND = "append the records, make them durable, fetch again"
    TRUNCATE = "cut the log, fetch again"
    LOAD_SNAPSHOT = "read the leader's snapshot, fetch again"


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """An action of a follower, and its arguments."""

    action: AfterFetch
    truncate_to: int = -1
    snapshot: SnapshotId | None = None
    high_watermark: int = -1


_NOTHING: Final = FetchOutcome(AfterFetch.NOTHING)


def _mark_of(leader: Leader) -> int:
    """Return the leader's high watermark in the form of the wire: -1 if it is unknown."""
    return -1 if leader.high_watermark is None else leader.high_watermark


class ElectionWait:
    """The waits of a voter before its next attempt to be elected, while it hears no leader.

    After a start of all nodes none leads, and two voters that have lost their leader may ask for
    votes at the same time, so that none of them wins. So the first waits are short. They grow up to
    the longest back-off, for voters whose majority stays away.
    """

    def __init__(self, random: Random, timing: RaftTimeouts) -> None:
        self.is_starting = True
        """Whether no leader was heard since the start."""
        self._random = random
        self._first_ms = self._next_ms = max(timing.notice_ms, 1)
        self._ms_max = max(timing.backoff_ms_max, 1)

    def draw(self) -> int:
        """Return the next wait in milliseconds."""
        drawn_ms = self._random.randrange(self._next_ms + 1)
        self._next_ms = min(2 * self._next_ms, self._ms_max)
        return drawn_ms

    def on_leader(self) -> None:
        """There is a leader. After its end the waits are short again."""
        self.is_starting = False
        self._next_ms = self._first_ms


class RaftReplica:
    """The state machine. Call the `on_...` method of each event, then carry out `take_ready()`."""

    def __init__(
        self, member: Member, state: QuorumState, log: LogView, random: Random, timing: RaftTimeouts
    ) -> None:
        self.member = member
        self.state = state
        self.role = Role.UNATTACHED
        self.leader: Leader | None = None
        """The leader's state while this replica leads; None in every other role."""
        self.deadline_ms = NEVER
        """The time at which `on_tick` has something to do."""
        self._log = log
        self._random = random
        self._timing = timing
        self._has_fetched = False
        self._election_wait = ElectionWait(random, timing)
        self._granted: set[int] = set()
        self._refused: set[int] = set()
        self._untold: set[int] = set()
        self._empty_disk = EmptyDisk() if member.has_empty_disk else None
        self._superseded_epoch = NOBODY
        self._saved = state
        self._elected_by: tuple[int, ...] | None = None
        self._has_caught_up = False
        self._requests: list[tuple[int, PeerRequest]] = []
        self._notices: list[Notice] = []
        self._told = SoftState(self.role, 0, NOBODY)
        self._has_told_leading = False

    def __repr__(self) -> str:
        return f"RaftReplica({self.member.node_id}, {self.role.name}, epoch={self.epoch})"

    # Properties for others.

    @property
    def epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def leader_id(self) -> int:
        """The leader of this epoch; -1 if it is unknown or has resigned."""
        return NOBODY if self.role is Role.RESIGNED else self.state.leader_id

    @property
    def has_empty_disk(self) -> bool:
        """Whether it started with an empty disk, and has not caught up since."""
        return self._empty_disk is not None

    def take_ready(self) -> Ready:
        """Return everything that the shell must do since the last call."""
        told, soft = self._told, SoftState(self.role, self.epoch, self.leader_id)
        leads = self.leader is not None
        ready = Ready(
            self._has_told_leading and not leads,
            None if self.state == self._saved else self.state,
            self._elected_by if leads else None,
            self._has_caught_up,
            tuple(self._requests),
            tuple(self._notices),
            None if soft == told else soft,
            soft[1:] != told[1:],
        )
        self._told = soft
        self._has_told_leading = leads and (self._has_told_leading or self._elected_by is not None)
        self._saved, self._elected_by, self._has_caught_up = self.state, None, False
        self._requests.clear()
        self._notices.clear()
        return ready

    # Time.

    def start(self, now_ms: int) -> None:
        """Start the replica. A sole voter has been elected when this returns."""
        state, me = self.state, self.member
        if me.voters == (me.node_id,) and me.is_voter:
            self._become(Role.PROSPECTIVE)
            self._stand(now_ms)
        elif state.leader_id == me.node_id:
            self.role = Role.RESIGNED  # it led in an earlier run; its records may be missing here
            self.deadline_ms = now_ms + self._election_wait.draw()
        elif state.leader_id != NOBODY:
            self._become(Role.FOLLOWER)
            self._wait_for_leader(now_ms)
        else:
            self._wait_to_stand(now_ms)

    def on_tick(self, now_ms: int) -> None:
        """React to the time. Nothing happens before `deadline_ms`."""
        if now_ms < self.deadline_ms:
            return
        if self.role is Role.LEADER:
            self._look_at_voters(now_ms)
        elif self.member.is_voter:
            self._ask_whether(now_ms)
        else:
            self._forget_leader(now_ms)

    def on_leader_lost(self, now_ms: int) -> None:
        """React to a connection to the leader that broke for good: elect another one soon."""
        if self.role is Role.FOLLOWER:
            self._has_fetched = False
            soon_ms = now_ms + self._random.randrange(self._timing.notice_ms + 1)
            self.deadline_ms = min(self.deadline_ms, soon_ms)

    def resign(self, now_ms: int) -> None:
        """Stop leading, and announce it to the others; for a controlled end of the process."""
        if self.role is Role.LEADER:
            assert self.leader is not None
            successors = self.leader.successors()
            ending = EndEpoch(self.epoch, self.member.node_id, successors)
            self._requests += [(each, ending) for each in successors]
            self._become(Role.RESIGNED)
            self._wait_to_stand(now_ms)

    def on_voters(self, voters: Voters, now_ms: int) -> bool:
        """Use other voters, which the log now names. They count as soon as they are in the log,
        committed or not. Return whether more is committed by that."""
        self.member = replace(
            self.member,
            voters=voters.ids,
            directories=voters.directories,
            is_dynamic=voters.is_dynamic,
        )
        if self.leader is None:
            if not self.member.is_voter and self.role in (Role.PROSPECTIVE, Role.CANDIDATE):
                self._become(Role.UNATTACHED)
                self._wait_to_stand(now_ms)
            return False
        others = set(self._others())
        self._untold = (self._untold & others) | (others - self.leader.voters.keys())
        if others:
            self.deadline_ms = min(self.deadline_ms, now_ms + self._timing.fetch_ms // 2)
        return self.leader.on_voters(voters.ids)

    # Elections.

    def on_vote_ask(self, ask: VoteAsk, now_ms: int) -> VoteAnswer:
        """Answer a candidate. The answer may be sent only after the state is saved."""
        end = LogEnd(ask.last_epoch, ask.log_end_offset)
        self._note_log(ask.candidate_id, VoterEnd(end, ask.epoch))
        if ask.epoch < self.epoch:
            return VoteAnswer(self._epoch_answer(ErrorCode.FENCED_LEADER_EPOCH), is_granted=False)
        # If the log names the voters, this replica may not know yet that the candidate is a voter,
        # or that it is one itself. If it rejected such votes, the new voters might never elect.
        is_known = ask.candidate_id in self.member.voters and self.member.is_voter
        if not is_known and not self.member.is_dynamic:
            return VoteAnswer(
                self._epoch_answer(ErrorCode.INCONSISTENT_VOTER_SET), is_granted=False
            )
        if ask.epoch > self.epoch:
            self._enter(ask.epoch, NOBODY, now_ms)
        is_granted = (
            self._is_up_to_date(ask)
            and (self._would_vote() if ask.is_pre_vote else self._may_vote(ask))
            and self._may_count(ask.candidate_id, end, ask.epoch + ask.is_pre_vote)
        )
        if is_granted and not ask.is_pre_vote:
            self._note_vote(end)
            if self.role is Role.PROSPECTIVE:
                self._become(Role.UNATTACHED)
            self.state = QuorumState(
                self.epoch, NOBODY, ask.candidate_id, ask.candidate_directory_id
            )
            self._wait_to_stand(now_ms)
        return VoteAnswer(self._epoch_answer(), is_granted)

    def _would_vote(self) -> bool:
        """Whether an election would help: this replica neither hears from a leader nor leads."""
        if self.role is Role.FOLLOWER:
            return not self._has_fetched
        return self.role is not Role.LEADER

    def _may_vote(self, ask: VoteAsk) -> bool:
        voted = self.state.voted_id
        if self.role not in (Role.UNATTACHED, Role.PROSPECTIVE) or self.state.leader_id != NOBODY:
            return False
        if voted == ask.candidate_id:
            return self.state.voted_directory_id == ask.candidate_directory_id
        return voted == NOBODY

    def _is_up_to_date(self, ask: VoteAsk) -> bool:
        """Whether the candidate's log ends no earlier than this one, so that it holds all records
        that may be committed."""
        ours = self._log.last_epoch, self._log.log_end_offset
        return (ask.last_epoch, ask.log_end_offset) >= ours

    def on_vote_answer(self, voter_id: int, ask: VoteAsk, answer: VoteAnswer, now_ms: int) -> None:
        """Count a voter's answer, which may be late."""
        self._observe(answer.epoch_answer, now_ms)
        expected = Role.PROSPECTIVE if ask.is_pre_vote else Role.CANDIDATE
        if self.role is not expected or ask.epoch != self.epoch:
            return
        if voter_id not in self.member.voters:
            return
        (self._granted if answer.is_granted else self._refused).add(voter_id)
        if answer.is_granted and self._empty_disk is not None:
            end = LogEnd(ask.last_epoch, ask.log_end_offset)
            self._empty_disk.on_granted(voter_id, VoterEnd(end, answer.epoch_answer.epoch))
        if len(self._granted) >= self._majority:
            if ask.is_pre_vote:
                self._stand(now_ms)
            else:
                self._win(now_ms)
        else:
            self._give_up_if_lost(now_ms)

    def on_peer_failed(self, peer: int, sent: PeerRequest, now_ms: int) -> None:
        """Note that a request got no answer: a missing vote counts as a rejected one."""
        if not isinstance(sent, VoteAsk) or sent.epoch != self.epoch:
            return
        if self.role is (Role.PROSPECTIVE if sent.is_pre_vote else Role.CANDIDATE):
            self._refused.add(peer)
            self._give_up_if_lost(now_ms)

    def _give_up_if_lost(self, now_ms: int) -> None:
        """If no majority is possible any more, follow the leader that may still exist, or wait."""
        if len(self._refused) <= len(self.member.voters) - self._majority:
            return
        if self.role is Role.PROSPECTIVE and self.state.leader_id not in (
            NOBODY,
            self.member.node_id,
        ):
            self._become(Role.FOLLOWER)
            self._wait_for_leader(now_ms)
            return
        backoff_ms = max(self._election_wait.draw(), 1)
        self.deadline_ms = min(self.deadline_ms, now_ms + backoff_ms)

    @property
    def _majority(self) -> int:
        return len(self.member.voters) // 2 + 1

    def _ask_whether(self, now_ms: int) -> None:
        """Ask for pre-votes: no leader has been heard, or no candidate has won."""
        self._become(Role.PROSPECTIVE)
        self._begin_count(now_ms)
        self._ask_votes(is_pre_vote=True)
        if len(self._granted) >= self._majority:
            self._stand(now_ms)  # the other voters were removed from the quorum

    def _stand(self, now_ms: int) -> None:
        """Ask for votes: a majority would vote for this replica."""
        self._become(Role.CANDIDATE)
        me = self.member
        self.state = QuorumState(self._next_epoch(), NOBODY, me.node_id, me.directory_id)
        self._begin_count(now_ms)
        self._ask_votes(is_pre_vote=False)
        if len(self._granted) >= self._majority:
            self._win(now_ms)

    def _next_epoch(self) -> int:
        """Return an epoch above all known ones and the log's: the quorum-state may be lost."""
        return max(self.epoch, self._log.last_epoch) + 1

    def _begin_count(self, now_ms: int) -> None:
        me, end = self.member.node_id, self._log_end()
        is_candidate = self.role is Role.CANDIDATE
        is_granted = self._may_count(me, end, self.epoch if is_candidate else self._next_epoch())
        self._granted = {me} if is_granted else set()
        self._refused = set() if is_granted else {me}
        if is_granted and is_candidate:
            self._note_vote(end)
        self._wait_to_stand(now_ms)

    def _ask_votes(self, *, is_pre_vote: bool) -> None:
        log, me = self._log, self.member
        ask = VoteAsk(
            self.epoch,
            me.node_id,
            log.last_epoch,
            log.log_end_offset,
            is_pre_vote,
            me.directory_id,
        )
        self._requests += [(each, ask) for each in self._others()]

    def _win(self, now_ms: int) -> None:
        self._become(Role.LEADER)
        self._election_wait.on_leader()
        me, state = self.member, self.state
        self.state = QuorumState(
            state.leader_epoch, me.node_id, state.voted_id, state.voted_directory_id
        )
        self.leader = Leader(me.node_id, me.voters, self.epoch, self._log.log_end_offset)
        for progress in self.leader.voters.values():
            progress.last_fetch_ms = now_ms  # each voter has a whole timeout to fetch
        self._elected_by = tuple(sorted(self._granted))
        self._note_caught_up()
        self._untold = set(self._others())
        self._notify_epoch()
        self.deadline_ms = now_ms + self._timing.fetch_ms // 2 if self._untold else NEVER

    def _others(self) -> list[int]:
        return [each for each in self.member.voters if each != self.member.node_id]

    # An empty disk.

    def _log_end(self) -> LogEnd:
        return LogEnd(self._log.last_epoch, self._log.log_end_offset)

    def _note_log(self, voter_id: int, heard: VoterEnd) -> None:
        if self._empty_disk is not None and voter_id in self._others():
            self._notify(self._empty_disk.on_log(voter_id, heard))

    def _note_vote(self, end: LogEnd) -> None:
        if self._empty_disk is not None:
            self._empty_disk.on_vote(end)

    def _may_count(self, candidate_id: int, end: LogEnd, epoch: int) -> bool:
        """Whether this replica's vote may make the candidate, perhaps itself, leader of the
        epoch."""
        if self._empty_disk is None:
            return True
        others = [each for each in self._others() if each != candidate_id]
        objection = self._empty_disk.objection(candidate_id, end, others)
        if objection is not None and not end.is_empty:
            self._notify(objection)
        return objection is None and (
            end.is_empty or not self._empty_disk.is_reached(epoch, others)
        )

    def on_caught_up(self, durable_end_offset: int, high_watermark: int) -> None:
        """Note that all records below `durable_end_offset` are durable here, and that the leader's
        high watermark is `high_watermark` (-1: it does not know it yet)."""
        if 0 < high_watermark <= durable_end_offset:
            self._note_caught_up()

    def _note_caught_up(self) -> None:
        if self._empty_disk is not None:
            self._notify(self._empty_disk.caught_up())
            self._empty_disk = None
            self._has_caught_up = True

    def _notify(self, notice: Notice | None) -> None:
        if notice is not None:
            self._notices.append(notice)

    # Leading.

    def _look_at_voters(self, now_ms: int) -> None:
        """Resign if no majority fetches. Else announce the epoch to voters without it."""
        assert self.leader is not None
        if not self.leader.heard_from_majority_since(now_ms - 3 * self._timing.fetch_ms // 2):
            self._become(Role.RESIGNED)
            self._wait_to_stand(now_ms)
            return
        self._notify_epoch()
        self.deadline_ms = now_ms + self._timing.fetch_ms // 2

    def _notify_epoch(self) -> None:
        told = BeginEpoch(self.epoch, self.member.node_id)
        self._requests += [(each, told) for each in sorted(self._untold)]

    def on_durable(self, log_end_offset: int) -> bool:
        """Note the end of the durable records here. Return whether more is committed now."""
        leader = self.leader
        return leader is not None and leader.on_durable(self.member.node_id, log_end_offset)

    def on_fetch(self, ask: FetchAsk, now_ms: int) -> tuple[FetchVerdict, bool]:
        """Note a replica's fetch. Return the verdict, and whether more is committed now."""
        if self._empty_disk is not None and ask.replica_id in self._others():
            self._note_log(ask.replica_id, VoterEnd(LogEnd(ask.last_epoch, ask.offset), ask.epoch))
            if ask.epoch > self.epoch:
                # this replica may have led there, and have forgotten it
                self._enter(ask.epoch, NOBODY, now_ms)
        verdict, leader, is_news = self.verdict_on(ask), self.leader, False
        if leader is None or verdict.epoch_answer.error:
            return verdict, False
        self._untold.discard(ask.replica_id)
        votes = self._is_same_disk(ask)
        if verdict.diverging is None and verdict.snapshot is None:
            is_news = leader.on_fetch(ask, self._log.log_end_offset, now_ms, votes=votes)
        elif votes:
            leader.on_other_log(ask.replica_id, now_ms)
        return verdict._replace(high_watermark=_mark_of(leader)), is_news

    def verdict_on(self, ask: FetchAsk) -> FetchVerdict:
        """Return the current verdict on the fetch, without noting the fetch."""
        leader = self.leader
        error = ErrorCode.NONE
        if ask.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif ask.epoch > self.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif leader is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error or leader is None or ask.replica_id == self.member.node_id:
            return FetchVerdict(self._epoch_answer(error or ErrorCode.INVALID_REQUEST))
        return FetchVerdict(self._epoch_answer(), _mark_of(leader), *compare(self._log, ask))

    def _is_same_disk(self, ask: FetchAsk) -> bool:
        """Whether the fetching replica has the disk that the log names, if both are known."""
        known = self.member.directories.get(ask.replica_id, ZERO_UUID)
        return ZERO_UUID in (known, ask.directory_id) or known == ask.directory_id

    # Following.

    def on_begin_epoch(self, told: BeginEpoch, now_ms: int) -> EpochAnswer:
        """React to a leader's announcement of its epoch."""
        if told.epoch < self.epoch:
            return self._epoch_answer(ErrorCode.FENCED_LEADER_EPOCH)
        self._observe(EpochAnswer(ErrorCode.NONE, told.epoch, told.leader_id), now_ms)
        return self._epoch_answer()

    def on_end_epoch(self, told: EndEpoch, now_ms: int) -> EpochAnswer:
        """React to a leader's resignation: the first successor stands at once, others later."""
        if told.epoch < self.epoch:
            return self._epoch_answer(ErrorCode.FENCED_LEADER_EPOCH)
        self._observe(EpochAnswer(ErrorCode.NONE, told.epoch, told.leader_id), now_ms)
        me = self.member.node_id
        if self.role is Role.FOLLOWER and me in told.successors:
            self._has_fetched = False
            place = told.successors.index(me)
            self.deadline_ms = now_ms + place * max(self._timing.notice_ms, 1)
        return self._epoch_answer()

    def on_peer_answer(self, peer: int, sent: PeerRequest, answer: PeerAnswer, now_ms: int) -> None:
        """React to the answer to one of `Ready.requests`."""
        if isinstance(sent, VoteAsk):
            assert isinstance(answer, VoteAnswer)
            self.on_vote_answer(peer, sent, answer, now_ms)
            return
        assert isinstance(answer, EpochAnswer)
        if isinstance(sent, BeginEpoch) and sent.epoch == self.epoch and not answer.error:
            self._untold.discard(peer)
        self._observe(answer, now_ms)

    def next_fetch(self) -> tuple[int, FetchAsk] | None:
        """Return the node to fetch from, and the fetch; None if there is no such node. An observer
        without a leader fetches from any voter: the answer names the leader."""
        source = self.state.leader_id
        if self.role is not Role.FOLLOWER:
            if self.member.is_voter:
                return None
            known = (*self._others(), *self.member.bootstrap)
            if not known:
                return None
            source = self._random.choice(known)
        log = self._log
        me = self.member
        ask = FetchAsk(
            me.node_id,
            self.epoch,
            log.log_end_offset,
            log.last_epoch,
            me.directory_id,
            log.high_watermark,
        )
        return source, ask

    def on_fetched(
        self, source: int, ask: FetchAsk, verdict: FetchVerdict, now_ms: int
    ) -> FetchOutcome:
        """Return the action that follows from a fetch answer. The log must not have changed since
        `next_fetch`. Raise CorruptLog if the leader lacks committed records."""
        self._observe(verdict.epoch_answer, now_ms)
        if self.role is not Role.FOLLOWER or source != self.state.leader_id:
            return _NOTHING
        answer = verdict.epoch_answer
        if answer.error or ask.epoch != self.epoch:
            leads_no_more = (answer.epoch, answer.leader_id) == (self.epoch, NOBODY)
            if leads_no_more and self._election_wait.is_starting:
                # The leader has started anew, too: elect another one soon.
                self.deadline_ms = min(self.deadline_ms, now_ms + self._election_wait.draw())
            return _NOTHING
        self._has_fetched = True
        self._election_wait.on_leader()
        self._wait_for_leader(now_ms)
        if self._empty_disk is not None:
            self._notify(self._empty_disk.on_leader(source))
        high_watermark = verdict.high_watermark
        if verdict.diverging is not None:
            end = self._truncation(verdict.diverging)
            return FetchOutcome(AfterFetch.TRUNCATE, end, high_watermark=self._log.high_watermark)
        if verdict.snapshot is not None:
            return FetchOutcome(AfterFetch.LOAD_SNAPSHOT, snapshot=verdict.snapshot)
        return FetchOutcome(AfterFetch.APPEND, high_watermark=high_watermark)

    def on_snapshot_read(self, now_ms: int) -> None:
        """React to a piece of the leader's snapshot: the leader is alive."""
        if self.role is Role.FOLLOWER:
            self._wait_for_leader(now_ms)

    def _truncation(self, diverging: Divergence) -> int:
        log = self._log
        ours = log.end_of_epoch(diverging.epoch)
        if ours.epoch < 0:
            end = log.log_start_offset
        elif ours.epoch == diverging.epoch:
            end = min(ours.end_offset, diverging.end_offset)
        else:
            end = ours.end_offset
        snapshot = log.newest_snapshot
        committed = max(log.high_watermark, 0 if snapshot is None else snapshot.end_offset)
        if end < committed:
            raise CorruptLog(
                "the leader lacks metadata that was committed: voters lost their disks. Keep "
                "this node's disk, and stop the leader before more is lost",
                leader=self.state.leader_id,
                committed=committed,
                leader_has=end,
            )
        return end

    # Roles.

    def _epoch_answer(self, error: ErrorCode = ErrorCode.NONE) -> EpochAnswer:
        return EpochAnswer(error, self.epoch, self.leader_id)

    def _observe(self, told: EpochAnswer, now_ms: int) -> None:
        """React to the epoch and the leader that another node reports."""
        if told.epoch > self.epoch:
            self._enter(told.epoch, told.leader_id, now_ms)
        elif told.epoch == self.epoch and told.leader_id not in (NOBODY, self.member.node_id):
            if self.state.leader_id == self.member.node_id:
                self._note_superseded(told)
            elif self._may_follow(told.leader_id):
                self._follow(told.leader_id, now_ms)

    def _note_superseded(self, told: EpochAnswer) -> None:
        """Note once that an epoch that this replica led has another leader: impossible."""
        if self._superseded_epoch != told.epoch:
            self._superseded_epoch = told.epoch
            self._notify(AnotherLeader(told.epoch, told.leader_id))

    def _may_follow(self, leader_id: int) -> bool:
        """Whether to follow the leader: none is known, or an observer has lost this one."""
        known = self.state.leader_id
        return known == NOBODY or (known == leader_id and self.role is Role.UNATTACHED)

    def _enter(self, epoch: int, leader_id: int, now_ms: int) -> None:
        """Enter a higher epoch."""
        self._become(Role.UNATTACHED)
        self.state = QuorumState(epoch)
        if leader_id not in (NOBODY, self.member.node_id):
            self._follow(leader_id, now_ms)
        else:
            self._wait_to_stand(now_ms)

    def _follow(self, leader_id: int, now_ms: int) -> None:
        assert self.role is not Role.LEADER, "two leaders in one epoch"
        self._become(Role.FOLLOWER)
        state = self.state
        self.state = QuorumState(
            state.leader_epoch, leader_id, state.voted_id, state.voted_directory_id
        )
        self._wait_for_leader(now_ms)

    def _forget_leader(self, now_ms: int) -> None:
        """Search for the leader again, as an observer. The leader of this epoch and the vote are
        kept: other nodes may count this replica as a voter."""
        self._become(Role.UNATTACHED)
        self._wait_to_stand(now_ms)

    def _become(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"{self.role} -> {role}"
        self.role = role
        self.leader = None
        self._has_fetched = False
        self._untold.clear()

    def _wait_for_leader(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self._timing.fetch_ms

    def _wait_to_stand(self, now_ms: int) -> None:
        """Set the deadline of the next election, or of an observer's next search."""
        timing = self._timing
        draw_ms = self._random.randrange(timing.election_ms + 1)
        self.deadline_ms = now_ms + timing.election_ms + draw_ms
