"""A broker introduces itself to the controller when it starts (KIP-631)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, Int64, String, Uint16, Uuid


class Listener(Struct):
    """An address that clients can use."""

    name: String = field(map_key=True)
    host: String
    port: Uint16
    security_protocol: Int16


class Feature(Struct):
    """A feature and the levels that this broker could run at."""

    name: String = field(map_key=True)
    min_supported_version: Int16
    max_supported_version: Int16


class BrokerRegistrationRequest(
    Request, key=62, versions="0-4", flexible="0+", listeners=("controller",)
):
    """The broker's identity, addresses, features and directories."""

    broker_id: BrokerId
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None
    is_migrating_zk_broker: Bool = field(since=1, default=False)
    # KIP-858
    log_dirs: list[Uuid] = field(since=2, default_factory=list, ignorable=True)
    # KIP-966: -1 unless the broker stopped in good order
    previous_broker_epoch: Int64 = field(since=3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    """The broker epoch that fences every earlier incarnation."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    broker_epoch: Int64 = field(default=-1)
