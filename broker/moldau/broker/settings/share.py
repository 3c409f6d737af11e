"""Share groups (KIP-932), their coordinator and the topic that holds their state."""

from __future__ import annotations

from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.config import (
    INT,
    LIST,
    SHORT,
    STRING,
    Importance,
    Setting,
    UpdateMode,
    at_least,
    between,
    list_of,
)

group_share_assignors = Setting(
    "group.share.assignors",
    LIST,
    ("simple",),
    "The one assignor of share groups.",
    check=list_of(empty_allowed=False),
)
group_share_assignment_interval_ms = Setting(
    "group.share.assignment.interval.ms",
    INT,
    1000,
    "Assignments of a share group are at least this far apart.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
group_share_min_assignment_interval_ms = Setting(
    "group.share.min.assignment.interval.ms",
    INT,
    0,
    "The least that a share group's own assignment interval may be.",
    check=at_least(0),
)
group_share_max_assignment_interval_ms = Setting(
    "group.share.max.assignment.interval.ms",
    INT,
    15_000,
    "The most that a share group's own assignment interval may be.",
    check=at_least(0),
)
group_share_heartbeat_interval_ms = Setting(
    "group.share.heartbeat.interval.ms",
    INT,
    5000,
    "How often members of share groups are told to send heartbeats.",
    check=at_least(1),
)
group_share_min_heartbeat_interval_ms = Setting(
    "group.share.min.heartbeat.interval.ms",
    INT,
    5000,
    "The least that a share group's own heartbeat interval may be.",
    check=at_least(1),
)
group_share_max_heartbeat_interval_ms = Setting(
    "group.share.max.heartbeat.interval.ms",
    INT,
    15_000,
    "The most that a share group's own heartbeat interval may be.",
    check=at_least(1),
)
group_share_session_timeout_ms = Setting(
    "group.share.session.timeout.ms",
    INT,
    45_000,
    "A member of a share group that is silent for this long is removed.",
    check=at_least(1),
)
group_share_min_session_timeout_ms = Setting(
    "group.share.min.session.timeout.ms",
    INT,
    45_000,
    "The least that a share group's own session timeout may be.",
    check=at_least(1),
)
group_share_max_session_timeout_ms = Setting(
    "group.share.max.session.timeout.ms",
    INT,
    60_000,
    "The most that a share group's own session timeout may be.",
    check=at_least(1),
)
group_share_max_size = Setting(
    "group.share.max.size",
    INT,
    200,
    "The most members of a share group.",
    check=between(1, 1000),
)
group_share_max_share_sessions = Setting(
    "group.share.max.share.sessions",
    INT,
    2000,
    "How many share sessions a broker remembers.",
    check=at_least(1),
)
group_share_delivery_count_limit = Setting(
    "group.share.delivery.count.limit",
    INT,
    5,
    "A record that was delivered this often without success is given up.",
    check=between(2, 10),
)
group_share_min_delivery_count_limit = Setting(
    "group.share.min.delivery.count.limit",
    INT,
    2,
    "The least that a share group's own delivery limit may be.",
    check=between(2, 5),
)
group_share_max_delivery_count_limit = Setting(
    "group.share.max.delivery.count.limit",
    INT,
    10,
    "The most that a share group's own delivery limit may be.",
    check=between(5, 25),
)
group_share_partition_max_record_locks = Setting(
    "group.share.partition.max.record.locks",
    INT,
    2000,
    "The most records of a partition that the members of a share group hold at once.",
    check=between(100, 10_000),
)
group_share_min_partition_max_record_locks = Setting(
    "group.share.min.partition.max.record.locks",
    INT,
    100,
    "The least that a share group's own number of record locks may be.",
    check=between(100, 2000),
)
group_share_max_partition_max_record_locks = Setting(
    "group.share.max.partition.max.record.locks",
    INT,
    4000,
    "The most that a share group's own number of record locks may be.",
    check=between(2000, 10_000),
)
group_share_record_lock_duration_ms = Setting(
    "group.share.record.lock.duration.ms",
    INT,
    30_000,
    "How long a member of a share group keeps a record before it goes to another.",
    check=between(1000, 3_600_000),
)
group_share_min_record_lock_duration_ms = Setting(
    "group.share.min.record.lock.duration.ms",
    INT,
    15_000,
    "The least that a share group's own lock duration may be.",
    check=between(1000, 30_000),
)
group_share_max_record_lock_duration_ms = Setting(
    "group.share.max.record.lock.duration.ms",
    INT,
    60_000,
    "The most that a share group's own lock duration may be.",
    check=between(30_000, 3_600_000),
)
group_share_initialize_retry_interval_ms = Setting(
    "group.share.initialize.retry.interval.ms",
    INT,
    30_000,
    "How often setting up the state of a share group's partition is tried again.",
    check=at_least(1),
    importance=Importance.LOW,
)
group_share_persister_class_name = Setting(
    "group.share.persister.class.name",
    STRING,
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    "The plugin that keeps the state of share groups.",
)
share_coordinator_threads = Setting(
    "share.coordinator.threads",
    INT,
    1,
    "How many threads of Kafka run the state of share groups.",
    check=at_least(1),
)
share_coordinator_append_linger_ms = Setting(
    "share.coordinator.append.linger.ms",
    INT,
    -1,
    "How long the share coordinator gathers records of one partition into a batch; -1 adapts "
    "to the load.",
    check=at_least(-1),
)
share_coordinator_cached_buffer_max_bytes = Setting(
    "share.coordinator.cached.buffer.max.bytes",
    INT,
    1_048_588,
    "A batch buffer of the share coordinator larger than this is not kept for the next batch.",
    check=at_least(524_288),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
share_coordinator_load_buffer_size = Setting(
    "share.coordinator.load.buffer.size",
    INT,
    5_242_880,
    "How many bytes at once are read when the state of share groups is loaded.",
    check=at_least(1),
    importance=Importance.HIGH,
)
share_coordinator_write_timeout_ms = Setting(
    "share.coordinator.write.timeout.ms",
    INT,
    5000,
    "How long a write of share state may wait for its replicas.",
    check=at_least(1),
    importance=Importance.HIGH,
)
share_coordinator_snapshot_update_records_per_snapshot = Setting(
    "share.coordinator.snapshot.update.records.per.snapshot",
    INT,
    500,
    "After this many changes the whole state of a share partition is written again.",
    check=between(0, 500),
)
share_coordinator_cold_partition_snapshot_interval_ms = Setting(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    INT,
    300_000,
    "How often the state of share partitions without traffic is written again.",
    check=at_least(1),
    importance=Importance.LOW,
)
share_coordinator_state_topic_num_partitions = Setting(
    "share.coordinator.state.topic.num.partitions",
    INT,
    50,
    "The partitions of the share state topic, which must not change after it was made.",
    check=at_least(1),
    importance=Importance.HIGH,
)
share_coordinator_state_topic_replication_factor = Setting(
    "share.coordinator.state.topic.replication.factor",
    SHORT,
    3,
    "The replicas of the share state topic.",
    check=at_least(1),
    importance=Importance.HIGH,
)
share_coordinator_state_topic_min_isr = Setting(
    "share.coordinator.state.topic.min.isr",
    SHORT,
    2,
    "How many replicas of the share state topic must be in sync for a write.",
    check=at_least(1),
    importance=Importance.HIGH,
)
share_coordinator_state_topic_segment_bytes = Setting(
    "share.coordinator.state.topic.segment.bytes",
    INT,
    104_857_600,
    "The segment size of the share state topic.",
    check=at_least(SEGMENT_BYTES_MIN),
    importance=Importance.HIGH,
)
share_coordinator_state_topic_compression_codec = Setting(
    "share.coordinator.state.topic.compression.codec",
    INT,
    0,
    "The codec of the share state topic by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    check=between(0, 4),
    importance=Importance.HIGH,
)
share_coordinator_state_topic_prune_interval_ms = Setting(
    "share.coordinator.state.topic.prune.interval.ms",
    INT,
    300_000,
    "How often records of the share state topic that are no longer needed are deleted.",
    check=at_least(1),
    importance=Importance.LOW,
)
share_fetch_purgatory_purge_interval_requests = Setting(
    "share.fetch.purgatory.purge.interval.requests",
    INT,
    1000,
    "After how many finished requests Kafka cleans up its waiting share fetches.",
)
