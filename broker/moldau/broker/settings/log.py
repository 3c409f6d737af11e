"""Partitions on disk: directories, segments, retention, flushing, timestamps, compression.

A topic's own settings fall back to these; `moldau.broker.settings.topic` has the pairs. The same
duration may be given in several units: the finest one that was given counts.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    INHERITED,
    INT,
    LIST,
    LONG,
    STRING,
    Fallback,
    Importance,
    Setting,
    UpdateMode,
    at_least,
    between,
    either,
    exactly,
    list_of,
    one_of,
)

LONG_MAX = 2**63 - 1
MINUTES_PER_HOUR = 60
MS_PER_MINUTE = 60_000
MS_PER_HOUR = 60 * MS_PER_MINUTE
SEGMENT_BYTES_MIN = 1_048_576
"""The smallest segment size that a topic may have."""

log_dir = Setting(
    "log.dir",
    LIST,
    ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
    "Where logs are kept, if `log.dirs` does not say so.",
    check=list_of(empty_allowed=False),
    importance=Importance.HIGH,
)
log_dirs = Setting(
    "log.dirs",
    LIST,
    None,
    "The directories where logs are kept; partitions are spread over them.",
    check=list_of(empty_allowed=False),
    importance=Importance.HIGH,
    fallback=Fallback(log_dir, lambda directories: directories),
)
moldau_log_dir_free_bytes_min = Setting(
    "moldau.log.dir.free.bytes.min",
    LONG,
    256 << 20,
    "Below this much free room on the disk of a log directory, it takes no produces and no copies "
    "until there is more; on a small disk below a twentieth of it. 0: never. Not a Kafka setting.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
cordoned_log_dirs = Setting(
    "cordoned.log.dirs",
    LIST,
    (),
    "Log directories that get no new partitions; `*` means all.",
    check=list_of(),
    dynamic=UpdateMode.PER_BROKER,
)
log_dir_failure_timeout_ms = Setting(
    "log.dir.failure.timeout.ms",
    LONG,
    30_000,
    "A broker that cannot tell the controller of a failed log directory within this time stops.",
    check=at_least(1),
    importance=Importance.LOW,
)
num_recovery_threads_per_data_dir = Setting(
    "num.recovery.threads.per.data.dir",
    INT,
    2,
    "How many logs of a directory are recovered, or flushed at the end, at the same time.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
message_max_bytes = Setting(
    "message.max.bytes",
    INT,
    1_048_588,
    "The largest record batch that is accepted, after compression; topics have "
    "`max.message.bytes`.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
log_segment_bytes = Setting(
    "log.segment.bytes",
    INT,
    1_073_741_824,
    "A segment is rolled before it grows beyond this.",
    check=at_least(SEGMENT_BYTES_MIN),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
log_roll_hours = Setting(
    "log.roll.hours",
    INT,
    168,
    "A segment is rolled when it is this old, in hours; `log.roll.ms` wins.",
    check=at_least(1),
    importance=Importance.HIGH,
)
log_roll_ms = Setting(
    "log.roll.ms",
    LONG,
    INHERITED,
    "A segment is rolled when it is this old, even if it is not full.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
    fallback=Fallback(log_roll_hours, lambda hours: hours * MS_PER_HOUR),
)
log_roll_jitter_hours = Setting(
    "log.roll.jitter.hours",
    INT,
    0,
    "At most so much is taken off the age at which segments are rolled, in hours; "
    "`log.roll.jitter.ms` wins.",
    check=at_least(0),
    importance=Importance.HIGH,
)
log_roll_jitter_ms = Setting(
    "log.roll.jitter.ms",
    LONG,
    INHERITED,
    "At most so much is taken off the age at which segments are rolled, so that not all are "
    "rolled at once.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
    fallback=Fallback(log_roll_jitter_hours, lambda hours: hours * MS_PER_HOUR),
)
log_retention_hours = Setting(
    "log.retention.hours",
    INT,
    168,
    "How long segments are kept, in hours; `log.retention.minutes` and `log.retention.ms` win.",
    importance=Importance.HIGH,
)
log_retention_minutes = Setting(
    "log.retention.minutes",
    INT,
    INHERITED,
    "How long segments are kept, in minutes; `log.retention.ms` wins.",
    importance=Importance.HIGH,
    fallback=Fallback(log_retention_hours, lambda hours: hours * MINUTES_PER_HOUR),
)
log_retention_ms = Setting(
    "log.retention.ms",
    LONG,
    INHERITED,
    "Segments whose newest record is older than this are deleted; -1 keeps them for ever.",
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
    fallback=Fallback(log_retention_minutes, lambda minutes: minutes * MS_PER_MINUTE),
)
log_retention_bytes = Setting(
    "log.retention.bytes",
    LONG,
    -1,
    "Old segments are deleted when a partition is larger than this; -1 means no limit.",
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
log_retention_check_interval_ms = Setting(
    "log.retention.check.interval.ms",
    LONG,
    300_000,
    "How often it is looked for segments to delete.",
    check=at_least(1),
)
log_cleanup_policy = Setting(
    "log.cleanup.policy",
    LIST,
    ("delete",),
    "What happens to old data: `delete` drops segments, `compact` keeps the last record of "
    "each key, both do both, and an empty list keeps all.",
    check=list_of(("compact", "delete")),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_segment_delete_delay_ms = Setting(
    "log.segment.delete.delay.ms",
    LONG,
    60_000,
    "How long the files of a deleted segment stay on disk under another name, for reads that "
    "still read them.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
log_index_size_max_bytes = Setting(
    "log.index.size.max.bytes",
    INT,
    10_485_760,
    "The size of an index file; a full index rolls the segment.",
    check=at_least(4),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_index_interval_bytes = Setting(
    "log.index.interval.bytes",
    INT,
    4096,
    "After this many bytes of records an entry is added to the index.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_flush_interval_messages = Setting(
    "log.flush.interval.messages",
    LONG,
    LONG_MAX,
    "After this many records a partition is forced to disk.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
log_flush_scheduler_interval_ms = Setting(
    "log.flush.scheduler.interval.ms",
    LONG,
    LONG_MAX,
    "How often it is looked for partitions that must be forced to disk.",
    importance=Importance.HIGH,
)
log_flush_interval_ms = Setting(
    "log.flush.interval.ms",
    LONG,
    INHERITED,
    "A record is forced to disk at the latest after this time.",
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
    fallback=Fallback(log_flush_scheduler_interval_ms, lambda interval: interval),
)
log_flush_offset_checkpoint_interval_ms = Setting(
    "log.flush.offset.checkpoint.interval.ms",
    INT,
    60_000,
    "How often the offsets are written down from which logs must be recovered.",
    check=at_least(0),
    importance=Importance.HIGH,
)
log_flush_start_offset_checkpoint_interval_ms = Setting(
    "log.flush.start.offset.checkpoint.interval.ms",
    INT,
    60_000,
    "How often the first offsets of logs are written down, so that deleted records do not come "
    "back.",
    check=at_least(0),
    importance=Importance.HIGH,
)
log_initial_task_delay_ms = Setting(
    "log.initial.task.delay.ms",
    LONG,
    30_000,
    "How long after the start the periodic work on logs begins.",
    check=at_least(0),
    importance=Importance.LOW,
)
log_preallocate = Setting(
    "log.preallocate",
    BOOLEAN,
    False,
    "Whether the file of a new segment gets its whole size at once.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_message_timestamp_type = Setting(
    "log.message.timestamp.type",
    STRING,
    "CreateTime",
    "Whose time a record carries: the producer's (`CreateTime`) or that of the append "
    "(`LogAppendTime`).",
    check=one_of("CreateTime", "LogAppendTime"),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_message_timestamp_before_max_ms = Setting(
    "log.message.timestamp.before.max.ms",
    LONG,
    LONG_MAX,
    "A record is refused if its timestamp lies further in the past than this.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_message_timestamp_after_max_ms = Setting(
    "log.message.timestamp.after.max.ms",
    LONG,
    3_600_000,
    "A record is refused if its timestamp lies further in the future than this.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
compression_type = Setting(
    "compression.type",
    STRING,
    "producer",
    "The codec of batches at rest: a named one makes the broker recompress, `producer` keeps "
    "what came.",
    check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    dynamic=UpdateMode.CLUSTER_WIDE,
    importance=Importance.HIGH,
)
compression_gzip_level = Setting(
    "compression.gzip.level",
    INT,
    -1,
    "The level of gzip where the broker compresses; -1 is the library's own.",
    check=either(exactly(-1), between(1, 9)),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
compression_lz4_level = Setting(
    "compression.lz4.level",
    INT,
    9,
    "The level of lz4 where the broker compresses; above 12 it is 12.",
    check=between(1, 17),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
compression_zstd_level = Setting(
    "compression.zstd.level",
    INT,
    3,
    "The level of zstd where the broker compresses.",
    check=between(-131_072, 22),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
