"""The bytes that sink records were made of, for a sink that reports single records. No IO.

Kept only until the next commit, and only where the connector has somewhere to report to.
"""

from __future__ import annotations

from typing import Any

from moldau.client import ConsumerRecord
from moldau.connect.api import SinkRecord


class Originals:
    """By topic, partition and offset of the consumed record."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], ConsumerRecord] = {}

    def keep(self, record: SinkRecord, raw: Any) -> None:
        """The record was made of `raw`."""
        topic, partition = record.original_topic, record.original_partition
        self._kept[topic, partition, raw.offset] = ConsumerRecord(
            topic, partition, raw.offset, raw.timestamp, raw.key, raw.value, raw.headers
        )

    def of(self, record: SinkRecord) -> ConsumerRecord | SinkRecord:
        """The consumed record, or the sink's where its bytes are not known any more."""
        where = (record.original_topic, record.original_partition, record.original_offset)
        return self._kept.get(where, record)

    def clear_if(self, is_settled: bool) -> None:
        """Forget them when nothing of them can be reported any more."""
        if is_settled:
            self._kept.clear()
