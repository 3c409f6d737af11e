"""Share groups (KIP-932), their coordinator and the topic that holds their state."""

from __future__ import annotations

from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LOW,
    SHORT,
    STRING,
    Setting,
    at_least,
    between,
    list_of,
)

# fmt: off
group_share_assignors = Setting(
    "group.share.assignors", LIST, ("simple",), check=list_of(empty_allowed=False),
    doc="The one assignor of share groups.")
group_share_assignor_offload_enable = Setting(
    "group.share.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc="Whether assignments of share groups are made by another thread.")
errors_deadletterqueue_auto_create_topics_enable = Setting(
    "errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether the topic that `errors.deadletterqueue.topic.name` of a share group names is "
    "created when it is first needed.")
errors_deadletterqueue_topic_name_prefix = Setting(
    "errors.deadletterqueue.topic.name.prefix", STRING, "dlq.", dynamic=CLUSTER_WIDE,
    doc="How the names of topics must begin that `errors.deadletterqueue.topic.name` may name. "
    "Empty: they may have any name.")
group_share_dlq_manager_class_name = Setting(
    "group.share.dlq.manager.class.name", STRING,
    "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager",
    doc="The plugin that writes dead letters of share groups.")
group_share_assignment_interval_ms = Setting(
    "group.share.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of a share group are at least this far apart.")
group_share_min_assignment_interval_ms = Setting(
    "group.share.min.assignment.interval.ms", INT, 0, check=at_least(0),
    doc="The least that a share group's own assignment interval may be.")
group_share_max_assignment_interval_ms = Setting(
    "group.share.max.assignment.interval.ms", INT, 15_000, check=at_least(0),
    doc="The most that a share group's own assignment interval may be.")
group_share_heartbeat_interval_ms = Setting(
    "group.share.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="How often members of share groups are told to send heartbeats.")
group_share_min_heartbeat_interval_ms = Setting(
    "group.share.min.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="The least that a share group's own heartbeat interval may be.")
group_share_max_heartbeat_interval_ms = Setting(
    "group.share.max.heartbeat.interval.ms", INT, 15_000, check=at_least(1),
    doc="The most that a share group's own heartbeat interval may be.")
group_share_session_timeout_ms = Setting(
    "group.share.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="A member of a share group that is silent for this long is removed.")
group_share_min_session_timeout_ms = Setting(
    "group.share.min.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="The least that a share group's own session timeout may be.")
group_share_max_session_timeout_ms = Setting(
    "group.share.max.session.timeout.ms", INT, 60_000, check=at_least(1),
    doc="The most that a share group's own session timeout may be.")
group_share_max_size = Setting("group.share.max.size", INT, 200, check=between(1, 1000),
    doc="The most members of a share group.")
group_share_max_share_sessions = Setting(
    "group.share.max.share.sessions", INT, 2000, check=at_least(1),
    doc="How many share sessions a broker remembers.")
group_share_delivery_count_limit = Setting(
    "group.share.delivery.count.limit", INT, 5, check=between(2, 10),
    doc="A record that was delivered this often without success is given up.")
group_share_min_delivery_count_limit = Setting(
    "group.share.min.delivery.count.limit", INT, 2, check=between(2, 5),
    doc="The least that a share group's own delivery limit may be.")
group_share_max_delivery_count_limit = Setting(
    "group.share.max.delivery.count.limit", INT, 10, check=between(5, 25),
    doc="The most that a share group's own delivery limit may be.")
group_share_partition_max_record_locks = Setting(
    "group.share.partition.max.record.locks", INT, 2000, check=between(100, 10_000),
    doc="The most records of a partition that the members of a share group hold at once.")
group_share_min_partition_max_record_locks = Setting(
    "group.share.min.partition.max.record.locks", INT, 100, check=between(100, 2000),
    doc="The least that a share group's own number of record locks may be.")
group_share_max_partition_max_record_locks = Setting(
    "group.share.max.partition.max.record.locks", INT, 4000, check=between(2000, 10_000),
    doc="The most that a share group's own number of record locks may be.")
group_share_record_lock_duration_ms = Setting(
    "group.share.record.lock.duration.ms", INT, 30_000, check=between(1000, 3_600_000),
    doc="How long a member of a share group keeps a record before it goes to another.")
group_share_min_record_lock_duration_ms = Setting(
    "group.share.min.record.lock.duration.ms", INT, 15_000, check=between(1000, 30_000),
    doc="The least that a share group's own lock duration may be.")
group_share_max_record_lock_duration_ms = Setting(
    "group.share.max.record.lock.duration.ms", INT, 60_000, check=between(30_000, 3_600_000),
    doc="The most that a share group's own lock duration may be.")
group_share_initialize_retry_interval_ms = Setting(
    "group.share.initialize.retry.interval.ms", INT, 30_000, check=at_least(1), importance=LOW,
    doc="How often setting up the state of a share group's partition is tried again.")
group_share_persister_class_name = Setting(
    "group.share.persister.class.name", STRING,
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    doc="The plugin that keeps the state of share groups.")
share_coordinator_threads = Setting("share.coordinator.threads", INT, 1, check=at_least(1),
    doc="How many threads of Kafka run the state of share groups.")
share_coordinator_append_linger_ms = Setting(
    "share.coordinator.append.linger.ms", INT, -1, check=at_least(-1),
    doc="How long the share coordinator gathers records of one partition into a batch; -1 adapts "
    "to the load.")
share_coordinator_cached_buffer_max_bytes = Setting(
    "share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, check=at_least(524_288),
    dynamic=CLUSTER_WIDE,
    doc="A batch buffer of the share coordinator larger than this is not kept for the next batch.")
share_coordinator_load_buffer_size = Setting(
    "share.coordinator.load.buffer.size", INT, 5_242_880, check=at_least(1), importance=HIGH,
    doc="How many bytes at once are read when the state of share groups is loaded.")
share_coordinator_write_timeout_ms = Setting(
    "share.coordinator.write.timeout.ms", INT, 5000, check=at_least(1), importance=HIGH,
    doc="How long a write of share state may wait for its replicas.")
share_coordinator_snapshot_update_records_per_snapshot = Setting(
    "share.coordinator.snapshot.update.records.per.snapshot", INT, 500, check=between(0, 500),
    doc="After this many changes the whole state of a share partition is written again.")
share_coordinator_cold_partition_snapshot_interval_ms = Setting(
    "share.coordinator.cold.partition.snapshot.interval.ms", INT, 300_000, check=at_least(1),
    importance=LOW,
    doc="How often the state of share partitions without traffic is written again.")
share_coordinator_state_topic_num_partitions = Setting(
    "share.coordinator.state.topic.num.partitions", INT, 50, check=at_least(1), importance=HIGH,
    doc="The partitions of the share state topic, which must not change after it was made.")
share_coordinator_state_topic_replication_factor = Setting(
    "share.coordinator.state.topic.replication.factor", SHORT, 3, check=at_least(1),
    importance=HIGH,
    doc="The replicas of the share state topic.")
share_coordinator_state_topic_min_isr = Setting(
    "share.coordinator.state.topic.min.isr", SHORT, 2, check=at_least(1), importance=HIGH,
    doc="How many replicas of the share state topic must be in sync for a write.")
share_coordinator_state_topic_segment_bytes = Setting(
    "share.coordinator.state.topic.segment.bytes", INT, 104_857_600,
    check=at_least(SEGMENT_BYTES_MIN), importance=HIGH,
    doc="The segment size of the share state topic.")
share_coordinator_state_topic_compression_codec = Setting(
    "share.coordinator.state.topic.compression.codec", INT, 0, check=between(0, 4), importance=HIGH,
    doc="The codec of the share state topic by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
share_coordinator_state_topic_prune_interval_ms = Setting(
    "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, check=at_least(1),
    importance=LOW,
    doc="How often records of the share state topic that are no longer needed are deleted.")
share_fetch_purgatory_purge_interval_requests = Setting(
    "share.fetch.purgatory.purge.interval.requests", INT, 1000,
    doc="After how many finished requests Kafka cleans up its waiting share fetches.")
