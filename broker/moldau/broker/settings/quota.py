"""The measurement of rates, and limits on replication."""

from __future__ import annotations

from moldau.config import CLASS, CLUSTER_WIDE, INT, LONG, LOW, Setting, at_least

LONG_MAX = 2**63 - 1

# fmt: off
quota_window_num = Setting("quota.window.num", INT, 11, check=at_least(1), importance=LOW,
    doc="Over how many windows the rates of clients are measured.")
quota_window_size_seconds = Setting(
    "quota.window.size.seconds", INT, 1, check=at_least(1), importance=LOW,
    doc="How long a window is in which the rates of clients are measured.")
replication_quota_window_num = Setting(
    "replication.quota.window.num", INT, 11, check=at_least(1), importance=LOW,
    doc="Over how many windows the rate of throttled replication is measured.")
replication_quota_window_size_seconds = Setting(
    "replication.quota.window.size.seconds", INT, 1, check=at_least(1), importance=LOW,
    doc="How long a window is in which the rate of throttled replication is measured.")
alter_log_dirs_replication_quota_window_num = Setting(
    "alter.log.dirs.replication.quota.window.num", INT, 11, check=at_least(1), importance=LOW,
    doc="Over how many windows the rate of moves between log directories is measured.")
alter_log_dirs_replication_quota_window_size_seconds = Setting(
    "alter.log.dirs.replication.quota.window.size.seconds", INT, 1, check=at_least(1),
    importance=LOW,
    doc="How long a window is in which the rate of moves between log directories is measured.")
controller_quota_window_num = Setting(
    "controller.quota.window.num", INT, 11, check=at_least(1), importance=LOW,
    doc="Over how many windows the rate of topic changes is measured.")
controller_quota_window_size_seconds = Setting(
    "controller.quota.window.size.seconds", INT, 1, check=at_least(1), importance=LOW,
    doc="How long a window is in which the rate of topic changes is measured.")
client_quota_callback_class = Setting("client.quota.callback.class", CLASS, None, importance=LOW,
    doc="A plugin that decides the quotas of clients.")
leader_replication_throttled_rate = Setting(
    "leader.replication.throttled.rate", LONG, LONG_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that leaders send to throttled replicas.")
follower_replication_throttled_rate = Setting(
    "follower.replication.throttled.rate", LONG, LONG_MAX, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that throttled replicas fetch.")
replica_alter_log_dirs_io_max_bytes_per_second = Setting(
    "replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, check=at_least(0),
    dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that replicas move between log directories.")
