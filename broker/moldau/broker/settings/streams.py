"""Streams groups (KIP-1071)."""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    Setting,
    at_least,
    list_of,
)

INT_MAX = 2**31 - 1

# fmt: off
group_streams_assignors = Setting(
    "group.streams.assignors", LIST, ("sticky",), check=list_of(("sticky",), empty_allowed=False),
    doc="The assignors that streams groups may use, the first by default. There is one, `sticky`.")
group_streams_assignor_offload_enable = Setting(
    "group.streams.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc="Whether assignments of streams groups are made by another thread.")
group_streams_topology_description_plugin_class = Setting(
    "group.streams.topology.description.plugin.class", CLASS, None,
    doc="The plugin that keeps the graphs of the topologies of streams groups.")
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
group_streams_task_offset_interval_ms = Setting(
    "group.streams.task.offset.interval.ms", INT, 60_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How often members of streams groups are told to report the offsets of their tasks' state.")
group_streams_min_task_offset_interval_ms = Setting(
    "group.streams.min.task.offset.interval.ms", INT, 15_000, check=at_least(1),
    doc="The least that a streams group's own interval for task offsets may be.")
group_streams_num_warmup_replicas = Setting(
    "group.streams.num.warmup.replicas", INT, 2, check=at_least(0),
    doc="How many copies of state a streams group warms up at a time before their tasks move.")
group_streams_max_warmup_replicas = Setting(
    "group.streams.max.warmup.replicas", INT, 20, check=at_least(0),
    doc="The most copies that a streams group may warm up at a time.")
group_streams_acceptable_recovery_lag = Setting(
    "group.streams.acceptable.recovery.lag", LONG, 10_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A copy that is at most this many records behind may become the active task.")
group_streams_rack_aware_assignment_tags = Setting(
    "group.streams.rack.aware.assignment.tags", LIST, (), check=list_of(), importance=LOW,
    dynamic=CLUSTER_WIDE,
    doc="The client tags by which the standbys of a task are spread, such as zone or cluster.")
