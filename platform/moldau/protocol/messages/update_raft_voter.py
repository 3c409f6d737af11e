"""A voter tells the leader its present addresses and supported versions (KIP-853)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int16, Int32, String, Uint16, Uuid


class Listener(Struct):
    """An address of the voter, by listener."""

    name: String = field(map_key=True)
    host: String
    port: Uint16


class KRaftVersionFeature(Struct):
    """The versions of the quorum's own protocol that the voter supports."""

    min_supported_version: Int16
    max_supported_version: Int16


class UpdateRaftVoterRequest(
    Request, key=82, versions="0", flexible="0+", listeners=("controller",)
):
    """The voter as it is now."""

    cluster_id: String | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature = field(name="KRaftVersionFeature")


class CurrentLeader(Struct):
    """The leader now, and its address."""

    leader_id: BrokerId = field(default=-1)
    leader_epoch: Int32 = field(default=-1)
    host: String = field(default="")
    port: Int32 = field(default=0)


class UpdateRaftVoterResponse(Response, key=82, versions="0", flexible="0+"):
    """Whether the leader took it in, or the node that leads instead."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    current_leader: CurrentLeader = field(tag=0, default_factory=CurrentLeader)
