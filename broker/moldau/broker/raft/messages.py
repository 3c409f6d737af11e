"""The messages between replicas of the metadata log, without their wire form.

The messages on the wire carry topics and partitions, because Kafka's Raft could serve any log.
There is only one log, so the core's messages do not name it. `wire` translates.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from moldau.broker.raft.empty_disk import CaughtUp, OthersHaveRecords, VoteWithheld
from moldau.broker.raft.snapshots import SnapshotId
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID, Uuid

NOBODY: Final = -1
UNTOLD: Final = 2**63 - 1
"""The high watermark in a fetch that does not report the one that its replica knows."""


class EpochAnswer(NamedTuple):
    """The common part of every answer: an error, the answering replica's epoch, and its leader."""

    error: ErrorCode
    epoch: int
    leader_id: int


class VoteAsk(NamedTuple):
    """A candidate's request for a vote. A pre-vote only asks if it would be granted (KIP-996)."""

    epoch: int
    candidate_id: int
    last_epoch: int
    log_end_offset: int
    is_pre_vote: bool
    candidate_directory_id: Uuid = ZERO_UUID


class VoteAnswer(NamedTuple):
    """Whether the vote was granted."""

    epoch_answer: EpochAnswer
    is_granted: bool


class BeginEpoch(NamedTuple):
    """A new leader's announcement to the voters."""

    epoch: int
    leader_id: int


class EndEpoch(NamedTuple):
    """A leader's announcement that it resigns; the first successor should stand first."""

    epoch: int
    leader_id: int
    successors: tuple[int, ...]


class FetchAsk(NamedTuple):
    """A replica's request to read from `offset` on, which confirms that all records below it are
    durable there. It knows that everything below `high_watermark` is committed (KIP-1166)."""

    replica_id: int
    epoch: int
    offset: int
    last_epoch: int
    directory_id: Uuid = ZERO_UUID
    high_watermark: int = UNTOLD


class Divergence(NamedTuple):
    """The largest epoch of the leader that is not above the requested one, and its end."""

    epoch: int
    end_offset: int


class FetchVerdict(NamedTuple):
    """The leader's answer to a fetch, without the records. If it has no error, divergence and
    snapshot, the records from the requested offset on belong to the answer."""

    epoch_answer: EpochAnswer
    high_watermark: int = -1
    diverging: Divergence | None = None
    snapshot: SnapshotId | None = None


PeerRequest: TypeAlias = VoteAsk | BeginEpoch | EndEpoch
PeerAnswer: TypeAlias = VoteAnswer | EpochAnswer


class AnotherLeader(NamedTuple):
    """A notice: another node leads in an epoch that this replica led."""

    epoch: int
    leader_id: int


Notice: TypeAlias = OthersHaveRecords | VoteWithheld | CaughtUp | AnotherLeader
"""An event that an operator should know."""
