"""What a Raft node must never forget, kept as JSON in the file `quorum-state`."""

from __future__ import annotations

from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import Int32, Int64, String, Uuid


class Voter(Struct):
    """A voter of the static quorum."""

    voter_id: Int32


class QuorumStateData(Data, versions="0-1", flexible="0+"):
    """The epoch, the vote given in it and the leader known in it."""

    cluster_id: String = field(until=0, default="")
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)
    voted_id: Int32 = field(default=-1)
    # KIP-853: dynamic voters made the other fields of version 0 needless
    voted_directory_id: Uuid = field(since=1, default=ZERO_UUID)
    applied_offset: Int64 = field(until=0, default=0)
    current_voters: list[Voter] | None = field(until=0, default_factory=list)
