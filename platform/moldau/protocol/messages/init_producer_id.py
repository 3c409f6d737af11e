"""Gives a producer its id and epoch, and fences older instances of a transactional id."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Bool, Int16, Int32, ProducerId, TransactionalId


class InitProducerIdRequest(
    Request, key=22, versions="0-6", flexible="2+", latest_unstable=True, listeners=("broker",)
):
    """Asks for a fresh id (no transactional id) or for the next epoch of a known one."""

    transactional_id: TransactionalId | None
    transaction_timeout_ms: Int32
    # KIP-360: keep the id and bump the epoch after an error
    producer_id: ProducerId = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)
    # KIP-939: an external coordinator decides about commit
    enable_2pc: Bool = field(since=6, default=False, name="Enable2Pc")
    keep_prepared_txn: Bool = field(since=6, default=False)


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    """The id and epoch to write with."""

    throttle_time_ms: Int32 = field(default=0, ignorable=True)
    error_code: Int16
    producer_id: ProducerId = field(default=-1)
    producer_epoch: Int16
    # KIP-939: a prepared transaction that was kept
    ongoing_txn_producer_id: ProducerId = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)
