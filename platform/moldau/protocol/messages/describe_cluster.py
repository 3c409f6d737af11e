"""Tells which brokers (or controllers) the cluster has (KIP-700)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int8, Int16, Int32, String


class DescribeClusterRequest(
    Request, key=60, versions="0-2", flexible="0+", listeners=("broker", "controller")
):
    """What to include; `endpoint_type` 1 asks for brokers, 2 for controllers."""

    include_cluster_authorized_operations: Bool
    # KIP-919
    endpoint_type: Int8 = field(since=1, default=1)
    # KIP-1073
    include_fenced_brokers: Bool = field(since=2, default=False)


class DescribeClusterBroker(Struct):
    """One node."""

    broker_id: BrokerId = field(map_key=True)
    host: String
    port: Int32
    rack: String | None = field(default=None)
    is_fenced: Bool = field(since=2, default=False)


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    """The nodes and their addresses."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: String
    controller_id: BrokerId = field(default=-1)
    brokers: list[DescribeClusterBroker]
    # KIP-430: a bit per operation; the default means "not asked for"
    cluster_authorized_operations: Int32 = field(default=-(2**31))
