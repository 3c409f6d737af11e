"""A broker asks the controller for a block of producer ids (KIP-730)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import BrokerId, Int16, Int32, Int64, ProducerId


class AllocateProducerIdsRequest(
    Request, key=67, versions="0", flexible="0+", listeners=("controller",)
):
    """The broker that asks."""

    broker_id: BrokerId
    broker_epoch: Int64 = field(default=-1)


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    """The first id of the block and its length."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    producer_id_start: ProducerId
    producer_id_len: Int32
