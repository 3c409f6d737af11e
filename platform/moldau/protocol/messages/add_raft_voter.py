"""Adds a voter to the Raft quorum (KIP-853)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int16, Int32, String, Uint16, Uuid


class Listener(Struct):
    """An address of the voter, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class AddRaftVoterRequest(
    Request, key=80, versions="0-1", flexible="0+", listeners=("controller", "broker")
):
    """The new voter: its id, its directory and where it can be reached."""

    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    # KIP-1186: false answers as soon as the change is written
    ack_when_committed: Bool = field(since=1, default=True)


class AddRaftVoterResponse(Response, key=80, versions="0-1", flexible="0+"):
    """Whether it votes from now on."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(ignorable=True)
