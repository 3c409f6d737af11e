"""Lists the transactions that one coordinator knows (KIP-664)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Int16, Int32, Int64, ProducerId, String, TransactionalId


class ListTransactionsRequest(
    Request, key=66, versions="0-2", flexible="0+", listeners=("broker",)
):
    """Filters by state, producer, age and (version 2) a pattern on the id."""

    state_filters: list[String]
    producer_id_filters: list[ProducerId]
    # KIP-994: only those that run longer than this many milliseconds
    duration_filter: Int64 = field(since=1, default=-1)
    # KIP-1152
    transactional_id_pattern: String | None = field(since=2, default=None)


class TransactionState(Struct):
    """One transaction."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    transaction_state: String


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    """The transactions that pass."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    unknown_state_filters: list[String]
    transaction_states: list[TransactionState]
