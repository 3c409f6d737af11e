"""Streams groups (KIP-1071)."""

from __future__ import annotations

from moldau.config import CLUSTER_WIDE, INT, Setting, at_least

INT_MAX = 2**31 - 1

# fmt: off
group_streams_assignment_interval_ms = Setting(
    "group.streams.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of a streams group are at least this far apart.")
group_streams_min_assignment_interval_ms = Setting(
    "group.streams.min.assignment.interval.ms", INT, 0, check=at_least(0),
    doc="The least that a streams group's own assignment interval may be.")
group_streams_max_assignment_interval_ms = Setting(
    "group.streams.max.assignment.interval.ms", INT, 15_000, check=at_least(0),
    doc="The most that a streams group's own assignment interval may be.")
group_streams_heartbeat_interval_ms = Setting(
    "group.streams.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="How often members of streams groups are told to send heartbeats.")
group_streams_min_heartbeat_interval_ms = Setting(
    "group.streams.min.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="The least that a streams group's own heartbeat interval may be.")
group_streams_max_heartbeat_interval_ms = Setting(
    "group.streams.max.heartbeat.interval.ms", INT, 15_000, check=at_least(1),
    doc="The most that a streams group's own heartbeat interval may be.")
group_streams_session_timeout_ms = Setting(
    "group.streams.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="A member of a streams group that is silent for this long is removed.")
group_streams_min_session_timeout_ms = Setting(
    "group.streams.min.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="The least that a streams group's own session timeout may be.")
group_streams_max_session_timeout_ms = Setting(
    "group.streams.max.session.timeout.ms", INT, 60_000, check=at_least(1),
    doc="The most that a streams group's own session timeout may be.")
group_streams_max_size = Setting("group.streams.max.size", INT, INT_MAX, check=at_least(1),
    doc="The most members of a streams group.")
group_streams_num_standby_replicas = Setting(
    "group.streams.num.standby.replicas", INT, 0, check=at_least(0),
    doc="How many standby copies of each stateful task a streams group keeps.")
group_streams_max_standby_replicas = Setting(
    "group.streams.max.standby.replicas", INT, 2, check=at_least(0),
    doc="The most standby copies that a streams group may ask for.")
group_streams_initial_rebalance_delay_ms = Setting(
    "group.streams.initial.rebalance.delay.ms", INT, 3000, check=at_least(0),
    doc="How long a new streams group waits for more members before its first assignment.")
