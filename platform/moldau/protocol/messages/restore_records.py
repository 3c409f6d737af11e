"""Appends batches with the offsets that they have, to a partition that is being restored (moldau's
own API, which only moldau's clients are told of)."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, field
from moldau.protocol.types import Int16, Int32, Int64, Records, String, TopicName, Uuid


class RestoreRecordsRequest(Request, key=20002, versions="0", flexible="0+", listeners=("broker",)):
    """Batches that follow each other, for a log that ends at `log_end_offset`; None appends nothing
    and asks where the log ends. An empty log begins at `start_offset`. Once the high watermark
    allows it, records below `log_start_offset` are deleted."""

    name: TopicName
    topic_id: Uuid
    partition_index: Int32
    log_end_offset: Int64
    start_offset: Int64
    log_start_offset: Int64
    records: Records | None
    timeout_ms: Int32


class RestoreRecordsResponse(Response, key=20002, versions="0", flexible="0+"):
    """Where the log begins and ends now. Replicas in sync have all below the high watermark."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    log_start_offset: Int64 = field(default=-1)
    high_watermark: Int64 = field(default=-1)
    log_end_offset: Int64 = field(default=-1)
