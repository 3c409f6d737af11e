"""What replicas of the metadata log say to each other, without the wire around it.

The wire's own messages carry topics and partitions, because Kafka's Raft could serve any log; there
is one, so the core speaks of it alone. `wire` translates.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from moldau.broker.raft.empty_disk import CaughtUp, OthersHaveRecords, VoteWithheld
from moldau.broker.raft.snapshots import SnapshotId
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID, Uuid

NOBODY: Final = -1
UNTOLD: Final = 2**63 - 1
"""The high watermark of a fetch that does not say which one its replica knows."""


class EpochAnswer(NamedTuple):
    """The end of every answer: an error, the epoch of the replica that answers, and its leader."""

    error: ErrorCode
    epoch: int
    leader_id: int


class VoteAsk(NamedTuple):
    """A candidate asks for a vote. A pre-vote only asks whether it would be granted (KIP-996)."""

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
    """A new leader tells the voters that it leads."""

    epoch: int
    leader_id: int


class EndEpoch(NamedTuple):
    """A leader resigns; the first successor should stand for election first."""

    epoch: int
    leader_id: int
    successors: tuple[int, ...]


class FetchAsk(NamedTuple):
    """A replica reads on from `offset`, and so says that all below it is durable there. It knows
    everything below `high_watermark` to be committed (KIP-1166)."""

    replica_id: int
    epoch: int
    offset: int
    last_epoch: int
    directory_id: Uuid = ZERO_UUID
    high_watermark: int = UNTOLD


class Divergence(NamedTuple):
    """The leader's end of the largest epoch that is not above the asked one."""

    epoch: int
    end_offset: int


class FetchVerdict(NamedTuple):
    """What the leader answers besides records. Without error, divergence and snapshot the records
    from the asked offset on belong to the answer."""

    epoch_answer: EpochAnswer
    high_watermark: int = -1
    diverging: Divergence | None = None
    snapshot: SnapshotId | None = None


PeerRequest: TypeAlias = VoteAsk | BeginEpoch | EndEpoch
PeerAnswer: TypeAlias = VoteAnswer | EpochAnswer


class AnotherLeader(NamedTuple):
    """A node leads in an epoch that this replica led."""

    epoch: int
    leader_id: int


Notice: TypeAlias = OthersHaveRecords | VoteWithheld | CaughtUp | AnotherLeader
"""What an operator should know."""
