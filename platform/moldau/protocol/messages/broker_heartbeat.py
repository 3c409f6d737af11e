"""A broker's sign of life to the controller; it also asks to be fenced or to shut down."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bool, BrokerId, Int16, Int32, Int64, Uuid


class BrokerHeartbeatRequest(
    Request, key=63, versions="0-2", flexible="0+", listeners=("controller",)
):
    """How far the broker has read the metadata log, and what it wants."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    # KIP-858: leaders in a failed directory move away
    offline_log_dirs: list[Uuid] = field(since=1, tag=0, default_factory=list)
    # KIP-1066
    cordoned_log_dirs: list[Uuid] | None = field(since=2, tag=1, default=None)


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    """Whether the broker is caught up, fenced, and free to stop."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    is_caught_up: Bool = field(default=False)
    is_fenced: Bool = field(default=True)
    should_shut_down: Bool
