"""Tells which broker coordinates a group, a transactional id or a share partition.

Version 4 (KIP-699) looks up many keys at once; before it the one key stands at the top.
"""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import BrokerId, Int8, Int16, Int32, String


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+", listeners=("broker",)):
    """Names the keys; `key_type` says of what kind they are (0 group, 1 transaction, 2 share)."""

    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)
    coordinator_keys: list[String] = field(since=4, default_factory=list)


class Coordinator(Struct):
    """The broker that coordinates one key."""

    key: String
    node_id: BrokerId
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = field(ignorable=True)


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    """The coordinator of each key, with its address."""

    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    error_code: Int16 = field(until=3, default=0)
    error_message: String | None = field(since=1, until=3, default="", ignorable=True)
    node_id: BrokerId = field(until=3, default=0)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default_factory=list)
