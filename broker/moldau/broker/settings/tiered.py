"""Tiered storage (KIP-405): old segments in a remote store."""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    HTTP_URL,
    INT,
    LONG,
    LOW,
    STRING,
    Setting,
    at_least,
    between,
    not_empty,
)

LONG_MAX = 2**63 - 1

# fmt: off
remote_log_storage_system_enable = Setting("remote.log.storage.system.enable", BOOLEAN, False,
    doc="Whether topics may keep old segments in remote storage.")
remote_log_storage_manager_class_name = Setting(
    "remote.log.storage.manager.class.name", STRING, None, check=not_empty(),
    doc="The plugin that stores segments remotely.")
remote_log_storage_manager_class_path = Setting(
    "remote.log.storage.manager.class.path", STRING, None,
    doc="Where Java looks for the plugin that stores segments.")
remote_log_storage_manager_impl_prefix = Setting(
    "remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", check=not_empty(),
    doc="Settings whose names begin so go to the plugin that stores segments.")
remote_log_metadata_manager_class_name = Setting(
    "remote.log.metadata.manager.class.name", STRING,
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    check=not_empty(),
    doc="The plugin that knows which segments are stored remotely.")
remote_log_metadata_manager_class_path = Setting(
    "remote.log.metadata.manager.class.path", STRING, None,
    doc="Where Java looks for the plugin that knows remote segments.")
remote_log_metadata_manager_impl_prefix = Setting(
    "remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", check=not_empty(),
    doc="Settings whose names begin so go to the plugin that knows remote segments.")
remote_log_metadata_manager_listener_name = Setting(
    "remote.log.metadata.manager.listener.name", STRING, None, check=not_empty(),
    doc="The listener over which the plugin that knows remote segments reaches brokers.")
remote_log_metadata_custom_metadata_max_bytes = Setting(
    "remote.log.metadata.custom.metadata.max.bytes", INT, 128, check=at_least(0), importance=LOW,
    doc="The most bytes that a storage plugin may remember about a segment.")
remote_log_manager_task_interval_ms = Setting(
    "remote.log.manager.task.interval.ms", LONG, 30_000, check=at_least(1), importance=LOW,
    doc="How often each partition looks for segments to copy or delete remotely.")
remote_log_manager_task_retry_backoff_ms = Setting(
    "remote.log.manager.task.retry.backoff.ms", LONG, 500, check=at_least(1), importance=LOW,
    doc="The first pause after a failure of remote work.")
remote_log_manager_task_retry_backoff_max_ms = Setting(
    "remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, check=at_least(1), importance=LOW,
    doc="The longest pause after failures of remote work.")
remote_log_manager_task_retry_jitter = Setting(
    "remote.log.manager.task.retry.jitter", DOUBLE, 0.2, check=between(0.0, 0.5), importance=LOW,
    doc="By which part pauses after failures are spread at random.")
remote_log_manager_thread_pool_size = Setting(
    "remote.log.manager.thread.pool.size", INT, 2, check=at_least(1),
    doc="How many threads Kafka once kept for all remote work.")
remote_log_manager_copier_thread_pool_size = Setting(
    "remote.log.manager.copier.thread.pool.size", INT, 10, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How many segments are copied to remote storage at the same time.")
remote_log_manager_expiration_thread_pool_size = Setting(
    "remote.log.manager.expiration.thread.pool.size", INT, 10, check=at_least(1),
    dynamic=CLUSTER_WIDE,
    doc="How many partitions look for expired remote segments at the same time.")
remote_log_manager_follower_thread_pool_size = Setting(
    "remote.log.manager.follower.thread.pool.size", INT, 2, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How many followers learn about remote segments at the same time.")
remote_log_manager_copy_max_bytes_per_second = Setting(
    "remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, check=at_least(1),
    dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that are copied to remote storage.")
remote_log_manager_copy_quota_window_num = Setting(
    "remote.log.manager.copy.quota.window.num", INT, 11, check=at_least(1),
    doc="Over how many windows the rate of copies is measured.")
remote_log_manager_copy_quota_window_size_seconds = Setting(
    "remote.log.manager.copy.quota.window.size.seconds", INT, 1, check=at_least(1),
    doc="How long a window is in which the rate of copies is measured.")
remote_log_manager_fetch_max_bytes_per_second = Setting(
    "remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, check=at_least(1),
    dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that are read from remote storage.")
remote_log_manager_fetch_quota_window_num = Setting(
    "remote.log.manager.fetch.quota.window.num", INT, 11, check=at_least(1),
    doc="Over how many windows the rate of remote reads is measured.")
remote_log_manager_fetch_quota_window_size_seconds = Setting(
    "remote.log.manager.fetch.quota.window.size.seconds", INT, 1, check=at_least(1),
    doc="How long a window is in which the rate of remote reads is measured.")
remote_log_reader_threads = Setting(
    "remote.log.reader.threads", INT, 10, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How many remote reads run at the same time.")
remote_log_reader_max_pending_tasks = Setting(
    "remote.log.reader.max.pending.tasks", INT, 100, check=at_least(1),
    doc="How many remote reads may wait before more are refused.")
remote_log_index_file_cache_total_size_bytes = Setting(
    "remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, check=at_least(1),
    dynamic=CLUSTER_WIDE, importance=LOW,
    doc="How much of the disk is used for indexes that were fetched from remote storage.")
remote_log_index_file_cache_ttl_ms = Setting(
    "remote.log.index.file.cache.ttl.ms", LONG, 900_000, check=at_least(-1), importance=LOW,
    doc="An index from remote storage that was not used for this long is dropped; -1 keeps it.")
remote_fetch_max_wait_ms = Setting(
    "remote.fetch.max.wait.ms", INT, 500, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How long a fetch waits for remote storage.")
remote_list_offsets_request_timeout_ms = Setting(
    "remote.list.offsets.request.timeout.ms", LONG, 30_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How long a search for offsets waits for remote storage.")
log_local_retention_ms = Setting(
    "log.local.retention.ms", LONG, -2, check=at_least(-2), dynamic=CLUSTER_WIDE,
    doc="How long segments stay on local disk after they are stored remotely; -2 means as long as "
    "`log.retention.ms` says.")
log_local_retention_bytes = Setting(
    "log.local.retention.bytes", LONG, -2, check=at_least(-2), dynamic=CLUSTER_WIDE,
    doc="How many bytes of a partition stay on local disk; -2 means as `log.retention.bytes` says.")
log_remote_copy_lag_ms = Setting(
    "log.remote.copy.lag.ms", LONG, 0, check=at_least(-1), dynamic=CLUSTER_WIDE,
    doc="A segment is copied to remote storage when its newest record is this old, or when "
    "`log.remote.copy.lag.bytes` says so; 0 copies at once, -1 means when it is about to leave the "
    "local disk by `log.local.retention.ms`.")
log_remote_copy_lag_bytes = Setting(
    "log.remote.copy.lag.bytes", LONG, -1, check=at_least(-1), dynamic=CLUSTER_WIDE,
    doc="A segment is copied to remote storage when so many bytes are behind it, or when "
    "`log.remote.copy.lag.ms` says so; 0 copies at once, -1 means when it is about to leave the "
    "local disk by `log.local.retention.bytes`.")
follower_fetch_last_tiered_offset_enable = Setting(
    "follower.fetch.last.tiered.offset.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether a new follower starts at the newest offset that is stored remotely, instead of "
    "copying what leaders still have.")
remote_storage = Setting("remote.storage", STRING, None, check=not_empty(),
    doc="Where old segments are stored: `s3://bucket/prefix`, `gs://bucket/prefix`, "
    "`az://container/prefix` or `file:///path`. It needs the extra `tiered`; credentials are found "
    "as the SDK of the cloud finds them. Kafka has no such setting.")
remote_storage_endpoint = Setting("remote.storage.endpoint", STRING, None, check=HTTP_URL,
    doc="The URL of a server that is not the cloud's own; without it that of `AWS_ENDPOINT_URL`, "
    "`GOOGLE_BASE_URL` or `AZURE_STORAGE_ENDPOINT` in the environment. Kafka has no such setting.")
remote_storage_region = Setting("remote.storage.region", STRING, None, check=not_empty(),
    doc="The region of the bucket; without it that of `AWS_REGION` in the environment. Kafka has "
    "no such setting.")
remote_storage_path_style = Setting("remote.storage.path.style", BOOLEAN, True,
    doc="Whether the bucket's name stands in the path of requests, as most S3 servers need it, and "
    "not in the server's name. Kafka has no such setting.")
remote_storage_orphan_grace_ms = Setting(
    "remote.storage.orphan.grace.ms", LONG, 86_400_000, check=at_least(0),
    doc="An object that no segment has is removed when it is this old by the clock of the store. "
    "Kafka has no such setting.")
remote_storage_encryption_keys = Setting(
    "remote.storage.encryption.keys", STRING, None, check=not_empty(),
    doc="A file with keys, a line each: a name and 32 bytes in base64. New segments are encrypted "
    "by the last one (AES-256-GCM); the others open older segments. Without the file nothing is "
    "encrypted. Kafka has no such setting.")
# fmt: on
