"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853), and a higher kraft.version: the new
voters, or the error.

Invariants: voters change one by one, and the next change waits until the last one is committed, so
that any two majorities share a voter; a leader that was just elected changes nothing before a
record of its epoch is committed; no node becomes a voter before it has caught up. A higher
kraft.version writes the voters of the settings into the log, with the disk and the endpoints that
each has told this leader, so that no majority changes. Codes are Kafka's.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from moldau.broker.raft.leader import UNKNOWN, Leader
from moldau.broker.raft.voters import DYNAMIC, Voter, Voters
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

CAUGHT_UP_MS: Final = 3_600_000
"""A new voter must have fetched in this time, and once have had all records of the leader."""

VoterChange: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


@dataclass(frozen=True, slots=True)
class VoterChangeContext:
    """The state of the leader when it gets the request."""

    cluster_id: str
    voters: Voters
    voters_end: int
    leader: Leader
    now_ms: int


def changed(at: VoterChangeContext, request: VoterChange) -> Voters:
    """Return the voters from now on; the same voters if nothing changes. Raise KafkaError if the
    change is rejected. Voters of the settings change nothing by telling where they are: the leader
    notes it."""
    if request.cluster_id not in (None, at.cluster_id):
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, expected=at.cluster_id, found=request.cluster_id
        )
    if not at.voters.is_dynamic:
        if isinstance(request, UpdateRaftVoterRequest):
            voter = _named_by(at, request)
            at.leader.announced[voter.voter_id] = voter
            return at.voters
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters are fixed by controller.quorum.voters: kraft.version is 0",
        )
    _check_settled(at)
    match request:
        case AddRaftVoterRequest():
            return _added(at, request)
        case RemoveRaftVoterRequest():
            return _removed(at, request)
        case UpdateRaftVoterRequest():
            return _updated(at, request)


def _check_settled(at: VoterChangeContext) -> None:
    committed = at.leader.high_watermark
    if committed is None:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "the new leader has committed nothing yet: ask again"
        )
    if at.voters_end > committed:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "another change of voters is under way: ask again"
        )


def _added(at: VoterChangeContext, request: AddRaftVoterRequest) -> Voters:
    node_id = request.voter_id
    if at.voters.find(node_id) is not None:
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"node {node_id} is a voter already")
    endpoints = tuple((each.name, each.host, each.port) for each in request.listeners)
    if not endpoints:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a voter names its listeners")
    known = at.leader.observers.get(node_id)
    is_ready = (
        known is not None
        and known.directory_id == request.voter_directory_id
        and known.last_caught_up_ms != UNKNOWN
        and at.now_ms - known.last_fetch_ms < CAUGHT_UP_MS
    )
    if not is_ready:
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {node_id} does not read the metadata log to its end with that directory: start "
            "it, and ask again",
        )
    return at.voters.having(Voter(node_id, request.voter_directory_id, endpoints))


def _removed(at: VoterChangeContext, request: RemoveRaftVoterRequest) -> Voters:
    known = at.voters.find(request.voter_id)
    if known is None or known.directory_id != request.voter_directory_id:
        raise KafkaError(
            ErrorCode.VOTER_NOT_FOUND,
            f"no voter is node {request.voter_id} with that directory",
        )
    if len(at.voters.voters) == 1:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, "the last voter stays: add another one first")
    return at.voters.lacking(request.voter_id)


def _updated(at: VoterChangeContext, request: UpdateRaftVoterRequest) -> Voters:
    voter = _named_by(at, request)
    known = at.voters.find(voter.voter_id)
    if known is None or known.directory_id != voter.directory_id:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND)
    return at.voters.having(voter)


def _named_by(at: VoterChangeContext, request: UpdateRaftVoterRequest) -> Voter:
    """Return what a voter tells about itself to the leader of its epoch."""
    if request.current_leader_epoch != at.leader.epoch:
        code = ErrorCode.FENCED_LEADER_EPOCH
        if request.current_leader_epoch > at.leader.epoch:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code)
    if at.voters.find(request.voter_id) is None:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND)
    levels = request.kraft_version_feature
    versions = levels.min_supported_version, levels.max_supported_version
    if not versions[0] <= at.voters.kraft_version <= versions[1]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, kraft_versions=versions)
    endpoints = tuple((each.name, each.host, each.port) for each in request.listeners)
    return Voter(request.voter_id, request.voter_directory_id, endpoints, versions)


def raised(at: VoterChangeContext, level: int) -> Voters:
    """Return the voters for a higher kraft.version: those of the settings, as they are in the log
    from now on. Raise KafkaError if that cannot be, or not yet."""
    if level < at.voters.kraft_version:
        raise _refused(level, "it is never lowered, because the log names the voters")
    if level != DYNAMIC:
        raise _refused(level, f"this controller knows levels up to {DYNAMIC}")
    _check_settled(at)
    told = at.leader.announced
    silent = [each for each in at.voters.ids if not _is_known(at.leader, each)]
    if silent:
        raise _refused(
            level,
            f"of the voters {silent} this leader does not know the disk and the address yet: start "
            "them, and ask again in a few seconds; controllers of Kafka tell them from 4.1 on",
        )
    old = [each for each in at.voters.ids if level > told[each].kraft_versions[1]]
    if old:
        raise _refused(level, f"the voters {old} cannot run at it")
    return Voters(level, tuple(told[each] for each in at.voters.ids))


def _is_known(leader: Leader, voter_id: int) -> bool:
    """Whether the leader knows the disk and the address of a voter of the settings. A voter that
    fetches to another disk than it told has come back with that one, and will tell it."""
    told, progress = leader.announced.get(voter_id), leader.voters[voter_id]
    return (
        told is not None
        and told.directory_id != ZERO_UUID
        and bool(told.endpoints)
        and progress.directory_id in (ZERO_UUID, told.directory_id)
    )


def _refused(level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"kraft.version to level {level}: {reason}")
