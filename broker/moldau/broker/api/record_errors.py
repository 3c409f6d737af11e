"""The records that caused the rejection of a batch (KIP-467).

A batch is rejected as a whole, and its check stops at the first error, so valid batches cost
nothing extra. Only a rejected batch is checked again, for the two errors that an application can
make in single records: a timestamp outside the topic's limits, and a missing key in a compacted
topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from moldau.broker.log.log_config import LogConfig
from moldau.errors import CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.produce import BatchIndexAndErrorMessage
from moldau.records import open_batch
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX
from moldau.records.header import NO_TIMESTAMP
from moldau.records.parts import entries_in_parts
from moldau.records.record import Entry

_LISTED_MAX: Final = 100
"""A limit, because a response with a line for each of a million records would not help."""


def record_errors(
    records: Any, error: KafkaError, config: LogConfig, now_ms: int, *, is_large: bool = False
) -> list[BatchIndexAndErrorMessage]:
    """Return one row for each bad record, at most a hundred; none if the batch itself is invalid,
    or has a record that is too large. `is_large`: read the batch in parts, for a thread."""
    if error.code not in (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD):
        return []
    try:
        batch = open_batch(records)
        most = config.max_decompressed_message_bytes
        entries: Iterable[Entry]
        if is_large or most < DECOMPRESSED_BYTES_MAX:
            entries = entries_in_parts(batch, record_bytes_max=most)
        else:
            entries = batch.entries()
        return [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in islice(_faults(entries, config, now_ms), _LISTED_MAX)
        ]
    except CorruptRecord:
        return []


def _faults(entries: Iterable[Entry], config: LogConfig, now_ms: int) -> Iterator[tuple[int, str]]:
    oldest = now_ms - config.timestamp_before_max_ms
    newest = now_ms + config.timestamp_after_max_ms
    for index, entry in enumerate(entries):
        at = entry.timestamp
        if config.is_compacted and entry.key is None:
            yield index, "a compacted topic needs keys"
        if at != NO_TIMESTAMP and not config.is_append_time and not oldest <= at <= newest:
            yield index, f"timestamp {at} is not between {oldest} and {newest}"
