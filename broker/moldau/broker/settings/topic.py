"""The settings that a topic may have of its own.

A topic without a setting of its own uses the broker's, which `BROKER_DEFAULTS` names: a change of
`log.retention.ms` changes every topic without its own `retention.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.settings import cleaner, log, replication, tiered
from moldau.broker.settings.log import RECORD_BYTES_MAX, SEGMENT_BYTES_MIN
from moldau.broker.settings.resource import Default
from moldau.broker.settings.retention import NO_LIMIT
from moldau.broker.settings.syntax import THROTTLED_REPLICAS
from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Setting,
    at_least,
    between,
    either,
    exactly,
    list_of,
    one_of,
)
from moldau.config.table import Row

LONG_MAX = 2**63 - 1

# fmt: off
cleanup_policy = Setting(
    "cleanup.policy", LIST, ("delete",), check=list_of(("compact", "delete")), dynamic=CLUSTER_WIDE,
    doc="What happens to old data: `delete` drops segments, `compact` keeps the last record of "
    "each key, both do both, and an empty list keeps all.")
compression_type = Setting(
    "compression.type", STRING, "producer",
    check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), dynamic=CLUSTER_WIDE,
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
delete_retention_ms = Setting(
    "delete.retention.ms", LONG, 86_400_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How long tombstones and the ends of transactions stay after compaction, so that slow "
    "readers see them; longer while a replica is out of sync.")
errors_deadletterqueue_group_enable = Setting(
    "errors.deadletterqueue.group.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether share groups whose `errors.deadletterqueue.topic.name` is this topic may write "
    "dead letters to it.")
file_delete_delay_ms = Setting(
    "file.delete.delay.ms", LONG, 60_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How long the files of a deleted segment stay on disk under another name.")
flush_messages = Setting("flush.messages", LONG, LONG_MAX, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="After this many records a partition is forced to disk; 1 means every batch before it is "
    "acknowledged.")
flush_ms = Setting("flush.ms", LONG, LONG_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record is forced to disk at the latest after this time.")
follower_replication_throttled_replicas = Setting(
    "follower.replication.throttled.replicas", LIST, (), check=THROTTLED_REPLICAS,
    dynamic=CLUSTER_WIDE,
    doc="Replicas that fetch at no more than the throttled rate, as `partition:broker` items; `*` "
    "means all.")
leader_replication_throttled_replicas = Setting(
    "leader.replication.throttled.replicas", LIST, (), check=THROTTLED_REPLICAS,
    dynamic=CLUSTER_WIDE,
    doc="Replicas to which leaders send at no more than the throttled rate, as `partition:broker` "
    "items; `*` means all.")
index_interval_bytes = Setting(
    "index.interval.bytes", INT, 4096, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="After this many bytes of records an entry is added to the index.")
internal_segment_bytes = Setting("internal.segment.bytes", INT, None, dynamic=CLUSTER_WIDE,
    doc="The segment size in tests, which may be tiny.")
local_retention_bytes = Setting(
    "local.retention.bytes", LONG, -2, check=at_least(-2), dynamic=CLUSTER_WIDE,
    doc="How many bytes of a partition stay on local disk; -2 means as `retention.bytes` says.")
local_retention_ms = Setting(
    "local.retention.ms", LONG, -2, check=at_least(-2), dynamic=CLUSTER_WIDE,
    doc="How long segments stay on local disk after they are stored remotely; -2 means as long as "
    "`retention.ms` says.")
max_compaction_lag_ms = Setting(
    "max.compaction.lag.ms", LONG, LONG_MAX, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A record is compacted at the latest after this time, however clean its log is.")
max_decompressed_message_bytes = Setting(
    "max.decompressed.message.bytes", INT, RECORD_BYTES_MAX, check=between(1, RECORD_BYTES_MAX),
    dynamic=CLUSTER_WIDE,
    doc="The largest record, in bytes, that is accepted in a compressed batch; the compaction and "
    "lookups by time refuse larger ones too. A batch never decompresses to more than 128 MiB.")
max_message_bytes = Setting(
    "max.message.bytes", INT, 1_048_588, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The largest record batch that is accepted, after compression.")
message_timestamp_after_max_ms = Setting(
    "message.timestamp.after.max.ms", LONG, 3_600_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record is refused if its timestamp lies further in the future than this.")
message_timestamp_before_max_ms = Setting(
    "message.timestamp.before.max.ms", LONG, LONG_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record is refused if its timestamp lies further in the past than this.")
message_timestamp_type = Setting(
    "message.timestamp.type", STRING, "CreateTime", check=one_of("CreateTime", "LogAppendTime"),
    dynamic=CLUSTER_WIDE,
    doc="The time that a record carries: the producer's (`CreateTime`) or that of the append "
    "(`LogAppendTime`).")
min_cleanable_dirty_ratio = Setting(
    "min.cleanable.dirty.ratio", DOUBLE, 0.5, check=between(0.0, 1.0), dynamic=CLUSTER_WIDE,
    doc="A log is compacted when at least this part of it is new since the last time.")
min_compaction_lag_ms = Setting(
    "min.compaction.lag.ms", LONG, 0, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record stays uncompacted for at least this long.")
min_insync_replicas = Setting(
    "min.insync.replicas", INT, 1, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A write with acks=all is refused when fewer replicas than this are in sync.")
preallocate = Setting("preallocate", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether the file of a new segment gets its whole size at once.")
remote_copy_lag_bytes = Setting(
    "remote.copy.lag.bytes", LONG, -1, check=at_least(-1), dynamic=CLUSTER_WIDE,
    doc="A segment is copied to remote storage when so many bytes are behind it, or when "
    "`remote.copy.lag.ms` says so; 0 copies at once, -1 means when it is about to leave the local "
    "disk by `local.retention.bytes`.")
remote_copy_lag_ms = Setting(
    "remote.copy.lag.ms", LONG, 0, check=at_least(-1), dynamic=CLUSTER_WIDE,
    doc="A segment is copied to remote storage when its newest record is this old, or when "
    "`remote.copy.lag.bytes` says so; 0 copies at once, -1 means when it is about to leave the "
    "local disk by `local.retention.ms`.")
remote_log_copy_disable = Setting("remote.log.copy.disable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether no more segments are copied to remote storage, while those there can still be "
    "read.")
remote_log_delete_on_disable = Setting(
    "remote.log.delete.on.disable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether remote segments are deleted when remote storage is switched off.")
remote_storage_enable = Setting("remote.storage.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether old segments go to remote storage.")
retention_bytes = Setting("retention.bytes", LONG, -1, dynamic=CLUSTER_WIDE,
    doc="Old segments are deleted when a partition is larger than this; -1 means no limit.")
retention_ms = Setting("retention.ms", LONG, 604_800_000, check=at_least(-1), dynamic=CLUSTER_WIDE,
    doc="A segment is deleted when its newest record is older; -1 keeps all for ever.")
segment_bytes = Setting(
    "segment.bytes", INT, 1_073_741_824, check=at_least(SEGMENT_BYTES_MIN), dynamic=CLUSTER_WIDE,
    doc="A segment is rolled before it grows beyond this.")
segment_index_bytes = Setting(
    "segment.index.bytes", INT, 10_485_760, check=at_least(4), dynamic=CLUSTER_WIDE,
    doc="The size of an index file; a full index rolls the segment.")
segment_jitter_ms = Setting("segment.jitter.ms", LONG, 0, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="At most so much is taken off the age at which segments are rolled, so that not all are "
    "rolled at once.")
segment_ms = Setting("segment.ms", LONG, 604_800_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A segment is rolled when it is this old, even if it is not full.")
unclean_leader_election_enable = Setting(
    "unclean.leader.election.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether a replica that is not in sync may become leader when no other is there, at the "
    "price of lost records.")
# fmt: on

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
    max_decompressed_message_bytes: Default(log.max_decompressed_message_bytes),
    max_message_bytes: Default(log.message_max_bytes),
    message_timestamp_after_max_ms: Default(log.log_message_timestamp_after_max_ms),
    message_timestamp_before_max_ms: Default(log.log_message_timestamp_before_max_ms),
    message_timestamp_type: Default(log.log_message_timestamp_type),
    min_cleanable_dirty_ratio: Default(cleaner.log_cleaner_min_cleanable_ratio),
    min_compaction_lag_ms: Default(cleaner.log_cleaner_min_compaction_lag_ms),
    min_insync_replicas: Default(replication.min_insync_replicas),
    preallocate: Default(log.log_preallocate),
    remote_copy_lag_bytes: Default(tiered.log_remote_copy_lag_bytes),
    remote_copy_lag_ms: Default(tiered.log_remote_copy_lag_ms),
    retention_bytes: Default(log.log_retention_bytes),
    retention_ms: Default(log.log_retention_ms, lambda milliseconds: max(milliseconds, NO_LIMIT)),
    segment_bytes: Default(log.log_segment_bytes),
    segment_index_bytes: Default(log.log_index_size_max_bytes),
    segment_jitter_ms: Default(log.log_roll_jitter_ms),
    segment_ms: Default(log.log_roll_ms),
    unclean_leader_election_enable: Default(replication.unclean_leader_election_enable),
}
