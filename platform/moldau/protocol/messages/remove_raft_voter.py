"""Takes a voter out of the Raft quorum (KIP-853)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Int16, Int32, String, Uuid


class RemoveRaftVoterRequest(
    Request, key=81, versions="0", flexible="0+", listeners=("controller", "broker")
):
    """The voter, by id and directory, so that a reinstalled node is not meant by mistake."""

    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Response, key=81, versions="0", flexible="0+"):
    """Whether it is out."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(ignorable=True)
