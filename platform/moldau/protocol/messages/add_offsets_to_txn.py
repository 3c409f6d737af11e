"""Tells the transaction coordinator that the transaction will commit offsets of a group."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import GroupId, Int16, Int32, ProducerId, TransactionalId


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+", listeners=("broker",)):
    """The producer and the group whose offsets partition joins the transaction."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: Int16
    group_id: GroupId


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    """Whether the group was added."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
