"""Partitions on disk: directories, segments, retention, flushing, timestamps, compression.

A topic's own settings fall back to these; `moldau.broker.settings.topic` has the pairs. The same
duration may be given in several units: the finest one that was given counts.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INHERITED,
    INT,
    LIST,
    LONG,
    LOW,
    PER_BROKER,
    STRING,
    Fallback,
    Importance,
    Setting,
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
RECORD_BYTES_MAX = 2**31 - 9
"""The largest size of a record that a topic may allow: that of an array in Java."""

log_dir = Setting(
    "log.dir",
    LIST,
    ("/tmp/kafka-logs",),  # noqa: S108 - Kafka's default
    "Where logs are kept, if `log.dirs` does not say so.",
    check=list_of(empty_allowed=False),
    importance=Importance.HIGH,
)
# fmt: off
log_dirs = Setting(
    "log.dirs", LIST, None, check=list_of(empty_allowed=False), importance=HIGH,
    fallback=Fallback(log_dir, lambda directories: directories),
    doc="The directories where logs are kept; partitions are spread over them.")
moldau_log_dir_free_bytes_min = Setting(
    "moldau.log.dir.free.bytes.min", LONG, 256 << 20, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Below this much free room on the disk of a log directory, it takes no produces and no "
    "copies until there is more; on a small disk below a twentieth of it. 0: never. Not a Kafka "
    "setting.")
cordoned_log_dirs = Setting("cordoned.log.dirs", LIST, (), check=list_of(), dynamic=PER_BROKER,
    doc="Log directories that get no new partitions; `*` means all.")
log_dir_failure_timeout_ms = Setting(
    "log.dir.failure.timeout.ms", LONG, 30_000, check=at_least(1), importance=LOW,
    doc="A broker that cannot tell the controller of a failed log directory within this time "
    "stops.")
num_recovery_threads_per_data_dir = Setting(
    "num.recovery.threads.per.data.dir", INT, 2, check=at_least(1), dynamic=CLUSTER_WIDE,
    importance=HIGH,
    doc="How many logs of a directory are recovered, or flushed at the end, at the same time.")
max_decompressed_message_bytes = Setting(
    "max.decompressed.message.bytes", INT, RECORD_BYTES_MAX, check=between(1, RECORD_BYTES_MAX),
    dynamic=CLUSTER_WIDE,
    doc="The largest record, in bytes, that is accepted in a compressed batch; topics may have "
    "their own.")
message_max_bytes = Setting(
    "message.max.bytes", INT, 1_048_588, check=at_least(0), dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="The largest record batch that is accepted, after compression; topics have "
    "`max.message.bytes`.")
log_segment_bytes = Setting(
    "log.segment.bytes", INT, 1_073_741_824, check=at_least(SEGMENT_BYTES_MIN),
    dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="A segment is rolled before it grows beyond this.")
log_roll_hours = Setting("log.roll.hours", INT, 168, check=at_least(1), importance=HIGH,
    doc="A segment is rolled when it is this old, in hours; `log.roll.ms` wins.")
log_roll_ms = Setting(
    "log.roll.ms", LONG, INHERITED, check=at_least(1), dynamic=CLUSTER_WIDE, importance=HIGH,
    fallback=Fallback(log_roll_hours, lambda hours: hours * MS_PER_HOUR),
    doc="A segment is rolled when it is this old, even if it is not full.")
log_roll_jitter_hours = Setting("log.roll.jitter.hours", INT, 0, check=at_least(0), importance=HIGH,
    doc="At most so much is taken off the age at which segments are rolled, in hours; "
    "`log.roll.jitter.ms` wins.")
log_roll_jitter_ms = Setting(
    "log.roll.jitter.ms", LONG, INHERITED, check=at_least(0), dynamic=CLUSTER_WIDE, importance=HIGH,
    fallback=Fallback(log_roll_jitter_hours, lambda hours: hours * MS_PER_HOUR),
    doc="At most so much is taken off the age at which segments are rolled, so that not all are "
    "rolled at once.")
log_retention_hours = Setting("log.retention.hours", INT, 168, importance=HIGH,
    doc="How long segments are kept, in hours; `log.retention.minutes` and `log.retention.ms` win.")
log_retention_minutes = Setting(
    "log.retention.minutes", INT, INHERITED, importance=HIGH,
    fallback=Fallback(log_retention_hours, lambda hours: hours * MINUTES_PER_HOUR),
    doc="How long segments are kept, in minutes; `log.retention.ms` wins.")
log_retention_ms = Setting(
    "log.retention.ms", LONG, INHERITED, dynamic=CLUSTER_WIDE, importance=HIGH,
    fallback=Fallback(log_retention_minutes, lambda minutes: minutes * MS_PER_MINUTE),
    doc="A segment is deleted when its newest record is older; -1 keeps all for ever.")
log_retention_bytes = Setting(
    "log.retention.bytes", LONG, -1, dynamic=CLUSTER_WIDE, importance=HIGH,
    doc="Old segments are deleted when a partition is larger than this; -1 means no limit.")
log_retention_check_interval_ms = Setting(
    "log.retention.check.interval.ms", LONG, 300_000, check=at_least(1),
    doc="How often it is looked for segments to delete.")
log_cleanup_policy = Setting(
    "log.cleanup.policy", LIST, ("delete",), check=list_of(("compact", "delete")),
    dynamic=CLUSTER_WIDE,
    doc="What happens to old data: `delete` drops segments, `compact` keeps the last record of "
    "each key, both do both, and an empty list keeps all.")
log_segment_delete_delay_ms = Setting(
    "log.segment.delete.delay.ms", LONG, 60_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    importance=HIGH,
    doc="How long the files of a deleted segment stay on disk under another name, for reads that "
    "still read them.")
log_index_size_max_bytes = Setting(
    "log.index.size.max.bytes", INT, 10_485_760, check=at_least(4), dynamic=CLUSTER_WIDE,
    doc="The size of an index file; a full index rolls the segment.")
log_index_interval_bytes = Setting(
    "log.index.interval.bytes", INT, 4096, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="After this many bytes of records an entry is added to the index.")
log_flush_interval_messages = Setting(
    "log.flush.interval.messages", LONG, LONG_MAX, check=at_least(1), dynamic=CLUSTER_WIDE,
    importance=HIGH,
    doc="After this many records a partition is forced to disk.")
log_flush_scheduler_interval_ms = Setting(
    "log.flush.scheduler.interval.ms", LONG, LONG_MAX, importance=HIGH,
    doc="How often it is looked for partitions that must be forced to disk.")
log_flush_interval_ms = Setting(
    "log.flush.interval.ms", LONG, INHERITED, dynamic=CLUSTER_WIDE, importance=HIGH,
    fallback=Fallback(log_flush_scheduler_interval_ms, lambda interval: interval),
    doc="A record is forced to disk at the latest after this time.")
log_flush_offset_checkpoint_interval_ms = Setting(
    "log.flush.offset.checkpoint.interval.ms", INT, 60_000, check=at_least(0), importance=HIGH,
    doc="How often the offsets are written down from which logs must be recovered.")
log_flush_start_offset_checkpoint_interval_ms = Setting(
    "log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, check=at_least(0),
    importance=HIGH,
    doc="How often the first offsets of logs are written down, so that deleted records do not come "
    "back.")
log_initial_task_delay_ms = Setting(
    "log.initial.task.delay.ms", LONG, 30_000, check=at_least(0), importance=LOW,
    doc="How long after the start the periodic work on logs begins.")
log_preallocate = Setting("log.preallocate", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether the file of a new segment gets its whole size at once.")
log_message_timestamp_type = Setting(
    "log.message.timestamp.type", STRING, "CreateTime", check=one_of("CreateTime", "LogAppendTime"),
    dynamic=CLUSTER_WIDE,
    doc="The time that a record carries: the producer's (`CreateTime`) or that of the append "
    "(`LogAppendTime`).")
log_message_timestamp_before_max_ms = Setting(
    "log.message.timestamp.before.max.ms", LONG, LONG_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record is refused if its timestamp lies further in the past than this.")
log_message_timestamp_after_max_ms = Setting(
    "log.message.timestamp.after.max.ms", LONG, 3_600_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record is refused if its timestamp lies further in the future than this.")
compression_type = Setting(
    "compression.type", STRING, "producer",
    check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), dynamic=CLUSTER_WIDE,
    importance=HIGH,
    doc="The codec of batches at rest: a named one makes the broker recompress, `producer` keeps "
    "what came.")
compression_gzip_level = Setting(
    "compression.gzip.level", INT, -1, check=either(exactly(-1), between(1, 9)),
    dynamic=CLUSTER_WIDE,
    doc="The level of gzip where the broker compresses; -1 is the library's own.")
compression_lz4_level = Setting(
    "compression.lz4.level", INT, 9, check=between(1, 17), dynamic=CLUSTER_WIDE,
    doc="The level of lz4 where the broker compresses; above 12 it is 12.")
compression_zstd_level = Setting(
    "compression.zstd.level", INT, 3, check=between(-131_072, 22), dynamic=CLUSTER_WIDE,
    doc="The level of zstd where the broker compresses.")
