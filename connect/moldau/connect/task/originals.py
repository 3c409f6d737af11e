"""The consumed bytes of sink records, for a sink that reports single records. No IO.

They are kept until the next commit, and only if the connector has a place to report to.
"""

from __future__ import annotations

from typing import Any

from moldau.client import ConsumerRecord
from moldau.connect.api import SinkRecord


class Originals:
    """Consumed records by topic, partition and offset."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], ConsumerRecord] = {}

    def keep(self, record: SinkRecord, raw: Any) -> None:
        """Keep `raw`, the consumed record that the sink record was made of."""
        topic, partition = record.original_topic, record.original_partition
        self._kept[topic, partition, raw.offset] = ConsumerRecord(
            topic, partition, raw.offset, raw.timestamp, raw.key, raw.value, raw.headers
        )

    def of(self, record: SinkRecord) -> ConsumerRecord | SinkRecord:
        """Return the consumed record; the sink record itself if its bytes are no longer kept."""
        where = (record.original_topic, record.original_partition, record.original_offset)
        return self._kept.get(where, record)

    def clear_if(self, is_settled: bool) -> None:
        """Drop all kept records if none of them can be reported any more."""
        if is_settled:
            self._kept.clear()
