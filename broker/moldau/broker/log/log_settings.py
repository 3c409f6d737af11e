"""The conversion of settings to the plain numbers that the log uses.

Invariant: only this module knows which setting is which number. The log's other modules know no
settings.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.log_config import LogConfig
from moldau.broker.settings import (
    ResourceSettings,
    cleaner,
    log,
    quota,
    replication,
    topic,
    transaction,
)
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.records import Codec

_CODECS: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LEVELS: Final = {
    "gzip": topic.compression_gzip_level,
    "lz4": topic.compression_lz4_level,
    "zstd": topic.compression_zstd_level,
}


def log_config(settings: ResourceSettings) -> LogConfig:
    """Return the LogConfig for the settings of a topic."""
    policy = settings[topic.cleanup_policy]
    codec = settings[topic.compression_type]
    level = _LEVELS.get(codec)
    own_segment_bytes = settings[topic.internal_segment_bytes]
    return LogConfig(
        segment_bytes=own_segment_bytes or settings[topic.segment_bytes],
        segment_ms=_segment_ms(settings),
        segment_jitter_ms=settings[topic.segment_jitter_ms],
        segment_index_bytes=settings[topic.segment_index_bytes],
        index_interval_bytes=settings[topic.index_interval_bytes],
        flush_messages=settings[topic.flush_messages],
        flush_ms=settings[topic.flush_ms],
        retention_bytes=settings[topic.retention_bytes],
        retention_ms=settings[topic.retention_ms],
        max_message_bytes=settings[topic.max_message_bytes],
        max_decompressed_message_bytes=settings[topic.max_decompressed_message_bytes],
        is_deleted="delete" in policy,
        is_compacted="compact" in policy,
        is_append_time=settings[topic.message_timestamp_type] == "LogAppendTime",
        timestamp_before_max_ms=settings[topic.message_timestamp_before_max_ms],
        timestamp_after_max_ms=settings[topic.message_timestamp_after_max_ms],
        compression=_CODECS[codec],
        compression_level=None if level is None else settings[level],
        is_tiered=settings[topic.remote_storage_enable],
        preallocate=settings[topic.preallocate],
        file_delete_delay_ms=settings[topic.file_delete_delay_ms],
        producer_expiration_ms=settings.broker[transaction.producer_id_expiration_ms],
        compaction=compaction_policy(settings),
    )


def _segment_ms(settings: ResourceSettings) -> int:
    """Return the age at which a segment is rolled. The active segment is never compacted, so it
    must be rolled before its records reach `max.compaction.lag.ms`."""
    segment_ms = settings[topic.segment_ms]
    if "compact" not in settings[topic.cleanup_policy]:
        return segment_ms
    return min(segment_ms, settings[topic.max_compaction_lag_ms])


def compaction_policy(settings: ResourceSettings) -> CompactionPolicy:
    """Return the settings of a topic for the cleaner."""
    return CompactionPolicy(
        min_cleanable_dirty_ratio=settings[topic.min_cleanable_dirty_ratio],
        min_compaction_lag_ms=settings[topic.min_compaction_lag_ms],
        max_compaction_lag_ms=settings[topic.max_compaction_lag_ms],
        delete_retention_ms=settings[topic.delete_retention_ms],
    )


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    """The resources that compaction may use."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 << 20
    """The limit for all threads together."""
    load_factor: float = 0.9
    bytes_per_second_max: float = cleaner.DOUBLE_MAX
    backoff_ms: int = 15_000


def cleaner_options(settings: Settings) -> CleanerOptions:
    """Return the broker's settings for the cleaner."""
    is_on = settings[cleaner.log_cleaner_enable]
    return CleanerOptions(
        threads=settings[cleaner.log_cleaner_threads] if is_on else 0,
        dedupe_buffer_bytes=settings[cleaner.log_cleaner_dedupe_buffer_size],
        load_factor=settings[cleaner.log_cleaner_io_buffer_load_factor],
        bytes_per_second_max=settings[cleaner.log_cleaner_io_max_bytes_per_second],
        backoff_ms=settings[cleaner.log_cleaner_backoff_ms],
    )


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """The intervals of the periodic work on the logs, in milliseconds."""

    initial_delay: int = 30_000
    retention_interval: int = 300_000
    flush_interval: int = log.LONG_MAX
    points_interval: int = 60_000
    """The interval for recovery points and log starts."""
    high_watermarks_interval: int = 5_000
    producers_interval: int = 600_000
    free_bytes_min: int = 256 << 20
    """The free room below which produces are refused."""


def upkeep_options(settings: Settings) -> UpkeepOptions:
    """Return the broker's settings for the periodic work."""
    return UpkeepOptions(
        initial_delay=settings[log.log_initial_task_delay_ms],
        retention_interval=settings[log.log_retention_check_interval_ms],
        flush_interval=settings[log.log_flush_scheduler_interval_ms],
        points_interval=min(
            settings[log.log_flush_offset_checkpoint_interval_ms],
            settings[log.log_flush_start_offset_checkpoint_interval_ms],
        ),
        high_watermarks_interval=settings[
            replication.replica_high_watermark_checkpoint_interval_ms
        ],
        producers_interval=settings[transaction.producer_id_expiration_check_interval_ms],
        free_bytes_min=settings[log.moldau_log_dir_free_bytes_min],
    )


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """The limits for moving logs between directories."""

    bytes_per_second_max: float = float(log.LONG_MAX)
    """The limit for all moves together."""
    at_a_time: int = 1


def move_options(settings: Settings) -> MoveOptions:
    """Return the broker's settings for the moves."""
    threads = settings[replication.num_replica_alter_log_dirs_threads]
    return MoveOptions(
        float(settings[quota.replica_alter_log_dirs_io_max_bytes_per_second]),
        len(settings[log.log_dirs] or ("",)) if threads is None else threads,
    )
