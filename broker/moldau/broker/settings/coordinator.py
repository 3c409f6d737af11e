"""The group coordinator: classic groups and consumer groups (KIP-848).

A group's own settings (`moldau.broker.settings.group`) stay between a `min` and a `max` from here.
"""

from __future__ import annotations

from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    STRING,
    Setting,
    at_least,
    list_of,
    one_of_ignoring_case,
)

INT_MAX = 2**31 - 1

_CLASSES = "org.apache.kafka.coordinator.group.assignor"
CONSUMER_ASSIGNOR_CLASSES = {
    f"{_CLASSES}.UniformAssignor": "uniform",
    f"{_CLASSES}.RangeAssignor": "range",
}
"""By which older versions of Kafka named their default."""

# fmt: off
group_coordinator_rebalance_protocols = Setting(
    "group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
    check=list_of(("consumer", "classic", "share", "streams"), empty_allowed=False),
    doc="Which kinds of groups are served; `classic` always is. Without this setting share groups "
    "are served too.")
group_coordinator_threads = Setting(
    "group.coordinator.threads", INT, 4, check=at_least(1), importance=HIGH,
    doc="How many threads of Kafka run the state of groups.")
group_coordinator_background_threads = Setting(
    "group.coordinator.background.threads", INT, 2, check=at_least(1), importance=HIGH,
    doc="How many threads of Kafka compute assignments beside the coordinator.")
group_coordinator_append_linger_ms = Setting(
    "group.coordinator.append.linger.ms", INT, -1, check=at_least(-1),
    doc="How long offset commits wait to share a batch. -1 and 0: for the rest of the event loop's "
    "turn. It has no effect on other writes of a group: each is written at once, with the commits "
    "that wait.")
group_coordinator_cached_buffer_max_bytes = Setting(
    "group.coordinator.cached.buffer.max.bytes", INT, 1_048_588, check=at_least(524_288),
    dynamic=CLUSTER_WIDE,
    doc="A batch buffer larger than this is not kept for the next batch.")
group_initial_rebalance_delay_ms = Setting("group.initial.rebalance.delay.ms", INT, 3000,
    doc="How long a new classic group waits for more members before its first assignment.")
group_min_session_timeout_ms = Setting("group.min.session.timeout.ms", INT, 6000,
    doc="The shortest session timeout that a member of a classic group may ask for.")
group_max_session_timeout_ms = Setting("group.max.session.timeout.ms", INT, 1_800_000,
    doc="The longest session timeout that a member of a classic group may ask for.")
group_max_size = Setting("group.max.size", INT, INT_MAX, check=at_least(1),
    doc="The most members of a classic group.")
group_consumer_assignors = Setting(
    "group.consumer.assignors", LIST, ("uniform", "range"),
    check=list_of(("uniform", "range", *CONSUMER_ASSIGNOR_CLASSES), empty_allowed=False),
    doc="The assignors that consumer groups may use on the broker, the first by default. Those of "
    "Kafka also go by the names of their classes.")
group_consumer_assignor_offload_enable = Setting(
    "group.consumer.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc="Whether assignments of consumer groups are made by another thread.")
group_consumer_assignment_interval_ms = Setting(
    "group.consumer.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of a consumer group are at least this far apart.")
group_consumer_min_assignment_interval_ms = Setting(
    "group.consumer.min.assignment.interval.ms", INT, 0, check=at_least(0),
    doc="The least that a consumer group's own assignment interval may be.")
group_consumer_max_assignment_interval_ms = Setting(
    "group.consumer.max.assignment.interval.ms", INT, 15_000, check=at_least(0),
    doc="The most that a consumer group's own assignment interval may be.")
group_consumer_heartbeat_interval_ms = Setting(
    "group.consumer.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="How often members of consumer groups are told to send heartbeats.")
group_consumer_min_heartbeat_interval_ms = Setting(
    "group.consumer.min.heartbeat.interval.ms", INT, 5000, check=at_least(1),
    doc="The least that a consumer group's own heartbeat interval may be.")
group_consumer_max_heartbeat_interval_ms = Setting(
    "group.consumer.max.heartbeat.interval.ms", INT, 15_000, check=at_least(1),
    doc="The most that a consumer group's own heartbeat interval may be.")
group_consumer_session_timeout_ms = Setting(
    "group.consumer.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="A member of a consumer group that is silent for this long is removed.")
group_consumer_min_session_timeout_ms = Setting(
    "group.consumer.min.session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="The least that a consumer group's own session timeout may be.")
group_consumer_max_session_timeout_ms = Setting(
    "group.consumer.max.session.timeout.ms", INT, 60_000, check=at_least(1),
    doc="The most that a consumer group's own session timeout may be.")
group_consumer_max_size = Setting("group.consumer.max.size", INT, INT_MAX, check=at_least(1),
    doc="The most members of a consumer group.")
group_consumer_migration_policy = Setting(
    "group.consumer.migration.policy", STRING, "bidirectional",
    check=one_of_ignoring_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    doc="Between classic and consumer groups: which way a group may turn while members of both "
    "kinds are in it.")
group_consumer_regex_refresh_interval_ms = Setting(
    "group.consumer.regex.refresh.interval.ms", INT, 600_000, check=at_least(10_000),
    doc="How often it is looked for new topics that match a group's regular expressions.")
