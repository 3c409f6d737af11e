"""The settings that a topic may have of its own.

A topic without a setting of its own uses the broker's, which `BROKER_DEFAULTS` names: a change of
`log.retention.ms` changes every topic without its own `retention.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.settings import cleaner, log, replication, tiered
from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.broker.settings.resource import Default
from moldau.broker.settings.retention import NO_LIMIT
from moldau.broker.settings.syntax import THROTTLED_REPLICAS
from moldau.config import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Setting,
    UpdateMode,
    at_least,
    between,
    either,
    exactly,
    list_of,
    one_of,
)
from moldau.config.table import Row

LONG_MAX = 2**63 - 1

cleanup_policy = Setting(
    "cleanup.policy",
    LIST,
    ("delete",),
    "What happens to old data: `delete` drops segments, `compact` keeps the last record of "
    "each key, both do both, and an empty list keeps all.",
    check=list_of(("compact", "delete")),
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
delete_retention_ms = Setting(
    "delete.retention.ms",
    LONG,
    86_400_000,
    "How long tombstones and the ends of transactions stay after compaction, so that slow readers "
    "see them; longer while a replica is out of sync.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
file_delete_delay_ms = Setting(
    "file.delete.delay.ms",
    LONG,
    60_000,
    "How long the files of a deleted segment stay on disk under another name.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
flush_messages = Setting(
    "flush.messages",
    LONG,
    LONG_MAX,
    "After this many records a partition is forced to disk; 1 means every batch before it is "
    "acknowledged.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
flush_ms = Setting(
    "flush.ms",
    LONG,
    LONG_MAX,
    "A record is forced to disk at the latest after this time.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
follower_replication_throttled_replicas = Setting(
    "follower.replication.throttled.replicas",
    LIST,
    (),
    "Replicas that fetch at no more than the throttled rate, as `partition:broker` items; `*` "
    "means all.",
    check=THROTTLED_REPLICAS,
    dynamic=UpdateMode.CLUSTER_WIDE,
)
leader_replication_throttled_replicas = Setting(
    "leader.replication.throttled.replicas",
    LIST,
    (),
    "Replicas to which leaders send at no more than the throttled rate, as `partition:broker` "
    "items; `*` means all.",
    check=THROTTLED_REPLICAS,
    dynamic=UpdateMode.CLUSTER_WIDE,
)
index_interval_bytes = Setting(
    "index.interval.bytes",
    INT,
    4096,
    "After this many bytes of records an entry is added to the index.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
internal_segment_bytes = Setting(
    "internal.segment.bytes",
    INT,
    None,
    "The segment size in tests, which may be tiny.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
local_retention_bytes = Setting(
    "local.retention.bytes",
    LONG,
    -2,
    "How many bytes of a partition stay on local disk; -2 means as `retention.bytes` says.",
    check=at_least(-2),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
local_retention_ms = Setting(
    "local.retention.ms",
    LONG,
    -2,
    "How long segments stay on local disk after they are stored remotely; -2 means as long as "
    "`retention.ms` says.",
    check=at_least(-2),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
max_compaction_lag_ms = Setting(
    "max.compaction.lag.ms",
    LONG,
    LONG_MAX,
    "A record is compacted at the latest after this time, however clean its log is.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
max_message_bytes = Setting(
    "max.message.bytes",
    INT,
    1_048_588,
    "The largest record batch that is accepted, after compression.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
message_timestamp_after_max_ms = Setting(
    "message.timestamp.after.max.ms",
    LONG,
    3_600_000,
    "A record is refused if its timestamp lies further in the future than this.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
message_timestamp_before_max_ms = Setting(
    "message.timestamp.before.max.ms",
    LONG,
    LONG_MAX,
    "A record is refused if its timestamp lies further in the past than this.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
message_timestamp_type = Setting(
    "message.timestamp.type",
    STRING,
    "CreateTime",
    "Whose time a record carries: the producer's (`CreateTime`) or that of the append "
    "(`LogAppendTime`).",
    check=one_of("CreateTime", "LogAppendTime"),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
min_cleanable_dirty_ratio = Setting(
    "min.cleanable.dirty.ratio",
    DOUBLE,
    0.5,
    "A log is compacted when at least this part of it is new since the last time.",
    check=between(0.0, 1.0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
min_compaction_lag_ms = Setting(
    "min.compaction.lag.ms",
    LONG,
    0,
    "A record stays uncompacted for at least this long.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
min_insync_replicas = Setting(
    "min.insync.replicas",
    INT,
    1,
    "A write with acks=all is refused when fewer replicas than this are in sync.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
preallocate = Setting(
    "preallocate",
    BOOLEAN,
    False,
    "Whether the file of a new segment gets its whole size at once.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
remote_log_copy_disable = Setting(
    "remote.log.copy.disable",
    BOOLEAN,
    False,
    "Whether no more segments are copied to remote storage, while those there can still be read.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
remote_log_delete_on_disable = Setting(
    "remote.log.delete.on.disable",
    BOOLEAN,
    False,
    "Whether remote segments are deleted when remote storage is switched off.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
remote_storage_enable = Setting(
    "remote.storage.enable",
    BOOLEAN,
    False,
    "Whether old segments go to remote storage.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
retention_bytes = Setting(
    "retention.bytes",
    LONG,
    -1,
    "Old segments are deleted when a partition is larger than this; -1 means no limit.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)
retention_ms = Setting(
    "retention.ms",
    LONG,
    604_800_000,
    "Segments whose newest record is older than this are deleted; -1 keeps them for ever.",
    check=at_least(-1),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
segment_bytes = Setting(
    "segment.bytes",
    INT,
    1_073_741_824,
    "A segment is rolled before it grows beyond this.",
    check=at_least(SEGMENT_BYTES_MIN),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
segment_index_bytes = Setting(
    "segment.index.bytes",
    INT,
    10_485_760,
    "The size of an index file; a full index rolls the segment.",
    check=at_least(4),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
segment_jitter_ms = Setting(
    "segment.jitter.ms",
    LONG,
    0,
    "At most so much is taken off the age at which segments are rolled, so that not all are "
    "rolled at once.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
segment_ms = Setting(
    "segment.ms",
    LONG,
    604_800_000,
    "A segment is rolled when it is this old, even if it is not full.",
    check=at_least(1),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
unclean_leader_election_enable = Setting(
    "unclean.leader.election.enable",
    BOOLEAN,
    False,
    "Whether a replica that is not in sync may become leader when no other is there, at the "
    "price of lost records.",
    dynamic=UpdateMode.CLUSTER_WIDE,
)

# The broker's setting that applies if a topic has none of its own.
BROKER_DEFAULTS: Mapping[Row, Default] = {
    cleanup_policy: Default(log.log_cleanup_policy),
    compression_gzip_level: Default(log.compression_gzip_level),
    compression_lz4_level: Default(log.compression_lz4_level),
    compression_type: Default(log.compression_type),
    compression_zstd_level: Default(log.compression_zstd_level),
    delete_retention_ms: Default(cleaner.log_cleaner_delete_retention_ms),
    file_delete_delay_ms: Default(log.log_segment_delete_delay_ms),
    flush_messages: Default(log.log_flush_interval_messages),
    flush_ms: Default(log.log_flush_interval_ms),
    index_interval_bytes: Default(log.log_index_interval_bytes),
    local_retention_bytes: Default(tiered.log_local_retention_bytes),
    local_retention_ms: Default(tiered.log_local_retention_ms),
    max_compaction_lag_ms: Default(cleaner.log_cleaner_max_compaction_lag_ms),
    max_message_bytes: Default(log.message_max_bytes),
    message_timestamp_after_max_ms: Default(log.log_message_timestamp_after_max_ms),
    message_timestamp_before_max_ms: Default(log.log_message_timestamp_before_max_ms),
    message_timestamp_type: Default(log.log_message_timestamp_type),
    min_cleanable_dirty_ratio: Default(cleaner.log_cleaner_min_cleanable_ratio),
    min_compaction_lag_ms: Default(cleaner.log_cleaner_min_compaction_lag_ms),
    min_insync_replicas: Default(replication.min_insync_replicas),
    preallocate: Default(log.log_preallocate),
    retention_bytes: Default(log.log_retention_bytes),
    retention_ms: Default(log.log_retention_ms, lambda milliseconds: max(milliseconds, NO_LIMIT)),
    segment_bytes: Default(log.log_segment_bytes),
    segment_index_bytes: Default(log.log_index_size_max_bytes),
    segment_jitter_ms: Default(log.log_roll_jitter_ms),
    segment_ms: Default(log.log_roll_ms),
    unclean_leader_election_enable: Default(replication.unclean_leader_election_enable),
}
