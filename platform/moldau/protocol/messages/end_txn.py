"""Commits or aborts the ongoing transaction of a producer."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bool, Int16, Int32, ProducerId, TransactionalId


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+", listeners=("broker",)):
    """The producer, and true for commit or false for abort."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    """Whether the outcome is decided; the markers follow on their own."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    # KIP-890: every transaction ends with a bumped epoch, sometimes a new id
    producer_id: ProducerId = field(since=5, default=-1, ignorable=True)
    producer_epoch: Int16 = field(since=5, default=-1, ignorable=True)
