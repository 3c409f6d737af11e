"""The measurement of rates, and limits on replication."""

from __future__ import annotations

from moldau.config import CLASS, INT, LONG, Importance, Setting, UpdateMode, at_least

LONG_MAX = 2**63 - 1

quota_window_num = Setting(
    "quota.window.num",
    INT,
    11,
    "Over how many windows the rates of clients are measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
quota_window_size_seconds = Setting(
    "quota.window.size.seconds",
    INT,
    1,
    "How long a window is in which the rates of clients are measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
replication_quota_window_num = Setting(
    "replication.quota.window.num",
    INT,
    11,
    "Over how many windows the rate of throttled replication is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
replication_quota_window_size_seconds = Setting(
    "replication.quota.window.size.seconds",
    INT,
    1,
    "How long a window is in which the rate of throttled replication is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
alter_log_dirs_replication_quota_window_num = Setting(
    "alter.log.dirs.replication.quota.window.num",
    INT,
    11,
    "Over how many windows the rate of moves between log directories is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
alter_log_dirs_replication_quota_window_size_seconds = Setting(
    "alter.log.dirs.replication.quota.window.size.seconds",
    INT,
    1,
    "How long a window is in which the rate of moves between log directories is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
controller_quota_window_num = Setting(
    "controller.quota.window.num",
    INT,
    11,
    "Over how many windows the rate of topic changes is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
controller_quota_window_size_seconds = Setting(
    "controller.quota.window.size.seconds",
    INT,
    1,
    "How long a window is in which the rate of topic changes is measured.",
    check=at_least(1),
    importance=Importance.LOW,
)
client_quota_callback_class = Setting(
    "client.quota.callback.class",
    CLASS,
    None,
    "A plugin that decides the quotas of clients.",
    importance=Importance.LOW,
)
leader_replication_throttled_rate = Setting(
    "leader.replication.throttled.rate",
    LONG,
    LONG_MAX,
    "The most bytes a second that leaders send to throttled replicas.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
follower_replication_throttled_rate = Setting(
    "follower.replication.throttled.rate",
    LONG,
    LONG_MAX,
    "The most bytes a second that throttled replicas fetch.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
replica_alter_log_dirs_io_max_bytes_per_second = Setting(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG,
    LONG_MAX,
    "The most bytes a second that replicas move between log directories.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
