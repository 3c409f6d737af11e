"""The records of `__transaction_state`: one key for each transactional id."""

from __future__ import annotations

from moldau.protocol.declare import LogKey, LogValue, Struct, field
from moldau.protocol.types import Int8, Int16, Int32, Int64, String


class TransactionLogKey(LogKey, type=0, versions="0", flexible="none"):
    """A transactional id."""

    transactional_id: String


class PartitionsSchema(Struct):
    """One topic and the partitions that are in the transaction."""

    topic: String
    partition_ids: list[Int32]


class TransactionLogValue(LogValue, type=0, versions="0-1", flexible="1+"):
    """Its producer, the state of its transaction and the partitions in it."""

    producer_id: Int64
    # KIP-890: the id before the last one, for requests that come late
    previous_producer_id: Int64 = field(since=1, tag=0, default=-1)
    next_producer_id: Int64 = field(since=1, tag=1, default=-1)
    producer_epoch: Int16
    next_producer_epoch: Int16 = field(since=1, tag=3, default=-1)
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Int16 = field(since=1, tag=2, default=0)
