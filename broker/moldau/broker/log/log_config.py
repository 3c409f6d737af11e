"""The settings of a topic that its logs use, as plain numbers.

Invariant: immutable. A change of settings makes a new object, which the log uses from its next
append on. Defaults are Kafka's.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.deferred import dataclass
from moldau.records import Codec
from moldau.records.codecs import RECORD_BYTES_MAX

UNLIMITED: Final = -1
_INT64_MAX: Final = (1 << 63) - 1
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one log. Fields are named after the topic settings; see the docs of those."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 168 * _HOUR_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    retention_bytes: int = UNLIMITED
    retention_ms: int = 168 * _HOUR_MS
    max_message_bytes: int = 1_048_588
    max_decompressed_message_bytes: int = RECORD_BYTES_MAX
    is_deleted: bool = True
    """Whether `cleanup.policy` has `delete`."""
    is_compacted: bool = False
    """Whether `cleanup.policy` has `compact`."""
    is_append_time: bool = False
    """Whether `message.timestamp.type` is LogAppendTime."""
    timestamp_before_max_ms: int = _INT64_MAX
    timestamp_after_max_ms: int = _HOUR_MS
    compression: Codec | None = None
    """None: keep the codec that the producer chose."""
    compression_level: int | None = None
    preallocate: bool = False
    is_restoring: bool = False
    """Whether a restore fills the log: clients append nothing then (`replication.restoring`)."""
    is_tiered: bool = False
    """Whether the oldest records may be in remote storage only. Retention is then decided outside
    of the log, over both tiers."""
    file_delete_delay_ms: int = 60_000
    producer_expiration_ms: int = 86_400_000
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)
    """The settings for the cleaner, which it uses if `is_compacted`."""

    @property
    def usual_age_ms(self) -> int:
        """The age up to which a segment is not due for a roll, whatever its jitter."""
        return max(0, self.segment_ms - self.segment_jitter_ms)
