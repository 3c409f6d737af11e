"""Streams groups (KIP-1071)."""

from __future__ import annotations

from moldau.config import INT, Setting, UpdateMode, at_least

INT_MAX = 2**31 - 1

group_streams_assignment_interval_ms = Setting(
    "group.streams.assignment.interval.ms",
    INT,
    1000,
    "Assignments of a streams group are at least this far apart.",
    check=at_least(0),
    dynamic=UpdateMode.CLUSTER_WIDE,
)
group_streams_min_assignment_interval_ms = Setting(
    "group.streams.min.assignment.interval.ms",
    INT,
    0,
    "The least that a streams group's own assignment interval may be.",
    check=at_least(0),
)
group_streams_max_assignment_interval_ms = Setting(
    "group.streams.max.assignment.interval.ms",
    INT,
    15_000,
    "The most that a streams group's own assignment interval may be.",
    check=at_least(0),
)
group_streams_heartbeat_interval_ms = Setting(
    "group.streams.heartbeat.interval.ms",
    INT,
    5000,
    "How often members of streams groups are told to send heartbeats.",
    check=at_least(1),
)
group_streams_min_heartbeat_interval_ms = Setting(
    "group.streams.min.heartbeat.interval.ms",
    INT,
    5000,
    "The least that a streams group's own heartbeat interval may be.",
    check=at_least(1),
)
group_streams_max_heartbeat_interval_ms = Setting(
    "group.streams.max.heartbeat.interval.ms",
    INT,
    15_000,
    "The most that a streams group's own heartbeat interval may be.",
    check=at_least(1),
)
group_streams_session_timeout_ms = Setting(
    "group.streams.session.timeout.ms",
    INT,
    45_000,
    "A member of a streams group that is silent for this long is removed.",
    check=at_least(1),
)
group_streams_min_session_timeout_ms = Setting(
    "group.streams.min.session.timeout.ms",
    INT,
    45_000,
    "The least that a streams group's own session timeout may be.",
    check=at_least(1),
)
group_streams_max_session_timeout_ms = Setting(
    "group.streams.max.session.timeout.ms",
    INT,
    60_000,
    "The most that a streams group's own session timeout may be.",
    check=at_least(1),
)
group_streams_max_size = Setting(
    "group.streams.max.size",
    INT,
    INT_MAX,
    "The most members of a streams group.",
    check=at_least(1),
)
group_streams_num_standby_replicas = Setting(
    "group.streams.num.standby.replicas",
    INT,
    0,
    "How many standby copies of each stateful task a streams group keeps.",
    check=at_least(0),
)
group_streams_max_standby_replicas = Setting(
    "group.streams.max.standby.replicas",
    INT,
    2,
    "The most standby copies that a streams group may ask for.",
    check=at_least(0),
)
group_streams_initial_rebalance_delay_ms = Setting(
    "group.streams.initial.rebalance.delay.ms",
    INT,
    3000,
    "How long a new streams group waits for more members before its first assignment.",
    check=at_least(0),
)
