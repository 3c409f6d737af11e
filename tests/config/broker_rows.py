"""A dozen true settings of Kafka's broker, to carry the machinery as the real tables will."""

from __future__ import annotations

from moldau.config import (
    INHERITED,
    LIST,
    LONG,
    REQUIRED,
    Fallback,
    Importance,
    Secret,
    Setting,
    Settings,
    SettingTable,
    UpdateMode,
    at_least,
    between,
    list_of,
    one_of,
)

INT_MAX = 2**31 - 1

node_id = Setting(
    "node.id",
    int,
    REQUIRED,
    "The number of this node, unique in the cluster.",
    check=at_least(0),
    importance=Importance.HIGH,
    aliases=("broker.id",),
)
process_roles = Setting(
    "process.roles",
    LIST,
    (),
    "What this process is.",
    check=list_of(("broker", "controller")),
    importance=Importance.HIGH,
)
replica_lag_time_max_ms = Setting(
    "replica.lag.time.max.ms",
    LONG,
    30_000,
    "A follower that has not reached the log end for this long leaves the ISR.",
    check=between(1, 2**63 - 1),
)
replica_fetch_wait_max_ms = Setting(
    "replica.fetch.wait.max.ms", int, 500, "The longest that a follower's fetch waits."
)
log_segment_bytes = Setting(
    "log.segment.bytes",
    int,
    2**30,
    "A segment is rolled before it grows beyond this.",
    check=at_least(1024**2),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
log_retention_hours = Setting("log.retention.hours", int, 168, "How long a log is kept, in hours.")
log_retention_minutes = Setting(
    "log.retention.minutes",
    int,
    INHERITED,
    "How long a log is kept, in minutes.",
    fallback=Fallback(log_retention_hours, lambda hours: hours * 60),
)
log_retention_ms = Setting(
    "log.retention.ms",
    LONG,
    INHERITED,
    "How long a log is kept; -1 means for ever.",
    dynamic=UpdateMode.CLUSTER_WIDE,
    fallback=Fallback(log_retention_minutes, lambda minutes: minutes * 60_000),
)
log_dir = Setting("log.dir", str, "/tmp/moldau-logs", "Where logs are kept.")  # noqa: S108
log_dirs = Setting(
    "log.dirs",
    LIST,
    None,
    "Where logs are kept, several directories.",
    check=list_of(empty_allowed=False),
    fallback=Fallback(log_dir, lambda directory: (directory,)),
)
log_cleaner_enable = Setting("log.cleaner.enable", bool, True, "Whether logs are compacted.")
log_cleaner_min_cleanable_ratio = Setting(
    "log.cleaner.min.cleanable.ratio",
    float,
    0.5,
    "How dirty a log must be before it is compacted.",
    check=between(0.0, 1.0),
)
compression_type = Setting(
    "compression.type",
    str,
    "producer",
    "The codec of batches at rest.",
    check=one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
ssl_keystore_password = Setting(
    "ssl.keystore.password",
    Secret,
    None,
    "Opens the key store.",
    dynamic=UpdateMode.PER_BROKER,
)
ssl_keystore_location = Setting(
    "ssl.keystore.location",
    str,
    None,
    "The key store's file.",
    dynamic=UpdateMode.PER_BROKER,
)
inter_broker_protocol = Setting(
    "inter.broker.protocol.version",
    str,
    None,
    "Which version brokers speak among themselves.",
    deprecated="the feature metadata.version says it",
)


def fetch_waits_less_than_lag(settings: Settings) -> str | None:
    """Kafka's own rule: a follower that waits longer than the lag allows would always lag."""
    if settings[replica_fetch_wait_max_ms] <= settings[replica_lag_time_max_ms]:
        return None
    return f"{replica_fetch_wait_max_ms.name} must not exceed {replica_lag_time_max_ms.name}"


BROKER = SettingTable(
    [
        node_id,
        process_roles,
        replica_lag_time_max_ms,
        replica_fetch_wait_max_ms,
        log_segment_bytes,
        log_retention_hours,
        log_retention_minutes,
        log_retention_ms,
        log_dir,
        log_dirs,
        log_cleaner_enable,
        log_cleaner_min_cleanable_ratio,
        compression_type,
        ssl_keystore_password,
        ssl_keystore_location,
        inter_broker_protocol,
    ],
    open_prefixes=("listener.name.", "config.providers."),
    removed={
        "zookeeper.": "there is no ZooKeeper; set controller.quorum.bootstrap.servers",
        "log.message.format.version": "records have one format",
    },
    rules=(fetch_waits_less_than_lag,),
)
