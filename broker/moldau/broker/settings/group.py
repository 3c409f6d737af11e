"""The settings that a group may have of its own.

A group without a setting of its own uses the broker's, which `BROKER_DEFAULTS` names. The broker
also bounds what groups may choose (`BOUNDS`): stored values that later bounds exclude are moved to
the bound (`bounded`), so an administrator's new limit holds at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.broker.settings import coordinator, share, streams
from moldau.broker.settings.resource import Default, ResourceSettings
from moldau.broker.settings.syntax import DELAYS, DLQ_TOPIC, KAFKA_DLQ_TOPIC, OFFSET_RESET
from moldau.config import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    Setting,
    at_least,
    list_of,
    one_of,
)
from moldau.config.table import Row

_OFFLOAD = "Whether another thread makes assignments: Kafka 4.4 takes it, and does not read it."

# fmt: off
consumer_assignment_interval_ms = Setting(
    "consumer.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of this consumer group are at least this far apart.")
consumer_assignor_offload_enable = Setting(
    "consumer.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc=_OFFLOAD)
consumer_heartbeat_interval_ms = Setting(
    "consumer.heartbeat.interval.ms", INT, 5000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How often members of this consumer group are told to send heartbeats.")
consumer_session_timeout_ms = Setting(
    "consumer.session.timeout.ms", INT, 45_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A member of this consumer group that is silent for this long is removed.")
errors_deadletterqueue_copy_record_enable = Setting(
    "errors.deadletterqueue.copy.record.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether dead letters of `errors.deadletterqueue.topic.name` have the key and the value of "
    "the record. Otherwise they only say where it is.")
errors_deadletterqueue_topic_name = Setting(
    "errors.deadletterqueue.topic.name", STRING, "", check=KAFKA_DLQ_TOPIC, dynamic=CLUSTER_WIDE,
    doc="The topic that gets a letter for each record that this share group gives up. Level 2 of "
    "`share.version` is needed, and `errors.deadletterqueue.group.enable` of the topic. Empty: "
    "there is none.")
share_assignment_interval_ms = Setting(
    "share.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of this share group are at least this far apart.")
share_assignor_offload_enable = Setting(
    "share.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc=_OFFLOAD)
share_auto_offset_reset = Setting(
    "share.auto.offset.reset", STRING, "latest", check=OFFSET_RESET, dynamic=CLUSTER_WIDE,
    doc="Where this share group begins: `earliest`, `latest`, or `by_duration:` and how far back, "
    "as in `by_duration:PT1H`.")
share_deliver_at_enable = Setting("share.deliver.at.enable", BOOLEAN, False, dynamic=CLUSTER_WIDE,
    doc="Whether a record with a header `deliver-at` waits for that time: milliseconds since 1970, "
    "or ISO 8601 with an offset. Kafka has no such setting.")
share_delivery_count_limit = Setting(
    "share.delivery.count.limit", INT, 5, check=at_least(2), dynamic=CLUSTER_WIDE,
    doc="A record that was delivered this often without success is given up.")
share_dlq_topic = Setting("share.dlq.topic", STRING, "", check=DLQ_TOPIC, dynamic=CLUSTER_WIDE,
    doc="The topic that gets a copy of each record that this share group gives up. Its name begins "
    "with `dlq.`. Empty: there is none. Kafka has no such setting.")
share_heartbeat_interval_ms = Setting(
    "share.heartbeat.interval.ms", INT, 5000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How often members of this share group are told to send heartbeats.")
share_isolation_level = Setting(
    "share.isolation.level", STRING, "read_uncommitted",
    check=one_of("read_committed", "read_uncommitted"), dynamic=CLUSTER_WIDE,
    doc="Whether members see only committed transactions (`read_committed`) or all records.")
share_partition_max_record_locks = Setting(
    "share.partition.max.record.locks", INT, 2000, check=at_least(100), dynamic=CLUSTER_WIDE,
    doc="The most records of a partition that members of this share group hold at once.")
share_record_lock_duration_ms = Setting(
    "share.record.lock.duration.ms", INT, 30_000, check=at_least(1000), dynamic=CLUSTER_WIDE,
    doc="How long a member keeps a record before it goes to another.")
share_renew_acknowledge_enable = Setting(
    "share.renew.acknowledge.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc="Whether a member may prolong its hold on a record.")
share_retry_backoff = Setting("share.retry.backoff", LIST, (), check=DELAYS, dynamic=CLUSTER_WIDE,
    doc="How long a record of this share group rests before its second delivery, its third, and so "
    "on, as in `1s,10s,1m`; the last delay counts for all that follow. Empty: not at all. Kafka "
    "has no such setting.")
share_session_timeout_ms = Setting(
    "share.session.timeout.ms", INT, 45_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A member of this share group that is silent for this long is removed.")
streams_assignment_interval_ms = Setting(
    "streams.assignment.interval.ms", INT, 1000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="Assignments of this streams group are at least this far apart.")
streams_assignor_name = Setting(
    "streams.assignor.name", STRING, None, dynamic=CLUSTER_WIDE,
    doc="The assignor of this streams group, one of the broker's `group.streams.assignors`. A "
    "change counts from the next assignment on.")
streams_assignor_offload_enable = Setting(
    "streams.assignor.offload.enable", BOOLEAN, True, dynamic=CLUSTER_WIDE,
    doc=_OFFLOAD)
streams_heartbeat_interval_ms = Setting(
    "streams.heartbeat.interval.ms", INT, 5000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How often members of this streams group are told to send heartbeats.")
streams_initial_rebalance_delay_ms = Setting(
    "streams.initial.rebalance.delay.ms", INT, 3000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How long this streams group waits for more members before its first assignment.")
streams_num_standby_replicas = Setting(
    "streams.num.standby.replicas", INT, 0, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How many standby copies of each stateful task this streams group keeps.")
streams_session_timeout_ms = Setting(
    "streams.session.timeout.ms", INT, 45_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A member of this streams group that is silent for this long is removed.")
streams_task_offset_interval_ms = Setting(
    "streams.task.offset.interval.ms", INT, 60_000, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="How often members of this streams group report the offsets of their tasks' state.")
streams_num_warmup_replicas = Setting(
    "streams.num.warmup.replicas", INT, 2, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How many copies of state this streams group warms up at a time before tasks move.")
streams_acceptable_recovery_lag = Setting(
    "streams.acceptable.recovery.lag", LONG, 10_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A copy of this streams group that is at most this far behind may become active.")
streams_rack_aware_assignment_tags = Setting(
    "streams.rack.aware.assignment.tags", LIST, (), check=list_of(), importance=LOW,
    dynamic=CLUSTER_WIDE,
    doc="The client tags by which the standbys of this streams group are spread.")
# fmt: on

# The broker's setting that applies if a group has none of its own.
BROKER_DEFAULTS: Mapping[Row, Default] = {
    consumer_assignor_offload_enable: Default(coordinator.group_consumer_assignor_offload_enable),
    share_assignor_offload_enable: Default(share.group_share_assignor_offload_enable),
    streams_assignor_offload_enable: Default(streams.group_streams_assignor_offload_enable),
    consumer_assignment_interval_ms: Default(coordinator.group_consumer_assignment_interval_ms),
    consumer_heartbeat_interval_ms: Default(coordinator.group_consumer_heartbeat_interval_ms),
    consumer_session_timeout_ms: Default(coordinator.group_consumer_session_timeout_ms),
    share_assignment_interval_ms: Default(share.group_share_assignment_interval_ms),
    share_delivery_count_limit: Default(share.group_share_delivery_count_limit),
    share_heartbeat_interval_ms: Default(share.group_share_heartbeat_interval_ms),
    share_partition_max_record_locks: Default(share.group_share_partition_max_record_locks),
    share_record_lock_duration_ms: Default(share.group_share_record_lock_duration_ms),
    share_session_timeout_ms: Default(share.group_share_session_timeout_ms),
    streams_assignor_name: Default(streams.group_streams_assignors, lambda names: names[0]),
    streams_assignment_interval_ms: Default(streams.group_streams_assignment_interval_ms),
    streams_heartbeat_interval_ms: Default(streams.group_streams_heartbeat_interval_ms),
    streams_initial_rebalance_delay_ms: Default(streams.group_streams_initial_rebalance_delay_ms),
    streams_num_standby_replicas: Default(streams.group_streams_num_standby_replicas),
    streams_session_timeout_ms: Default(streams.group_streams_session_timeout_ms),
    streams_task_offset_interval_ms: Default(streams.group_streams_task_offset_interval_ms),
    streams_num_warmup_replicas: Default(streams.group_streams_num_warmup_replicas),
    streams_acceptable_recovery_lag: Default(streams.group_streams_acceptable_recovery_lag),
    streams_rack_aware_assignment_tags: Default(streams.group_streams_rack_aware_assignment_tags),
}

# The broker's settings that bound a group's own setting; None means no such bound.
BOUNDS: Mapping[Setting[int], tuple[Setting[int] | None, Setting[int] | None]] = {
    consumer_assignment_interval_ms: (
        coordinator.group_consumer_min_assignment_interval_ms,
        coordinator.group_consumer_max_assignment_interval_ms,
    ),
    consumer_heartbeat_interval_ms: (
        coordinator.group_consumer_min_heartbeat_interval_ms,
        coordinator.group_consumer_max_heartbeat_interval_ms,
    ),
    consumer_session_timeout_ms: (
        coordinator.group_consumer_min_session_timeout_ms,
        coordinator.group_consumer_max_session_timeout_ms,
    ),
    share_assignment_interval_ms: (
        share.group_share_min_assignment_interval_ms,
        share.group_share_max_assignment_interval_ms,
    ),
    share_delivery_count_limit: (
        share.group_share_min_delivery_count_limit,
        share.group_share_max_delivery_count_limit,
    ),
    share_heartbeat_interval_ms: (
        share.group_share_min_heartbeat_interval_ms,
        share.group_share_max_heartbeat_interval_ms,
    ),
    share_partition_max_record_locks: (
        share.group_share_min_partition_max_record_locks,
        share.group_share_max_partition_max_record_locks,
    ),
    share_record_lock_duration_ms: (
        share.group_share_min_record_lock_duration_ms,
        share.group_share_max_record_lock_duration_ms,
    ),
    share_session_timeout_ms: (
        share.group_share_min_session_timeout_ms,
        share.group_share_max_session_timeout_ms,
    ),
    streams_assignment_interval_ms: (
        streams.group_streams_min_assignment_interval_ms,
        streams.group_streams_max_assignment_interval_ms,
    ),
    streams_heartbeat_interval_ms: (
        streams.group_streams_min_heartbeat_interval_ms,
        streams.group_streams_max_heartbeat_interval_ms,
    ),
    streams_num_standby_replicas: (None, streams.group_streams_max_standby_replicas),
    streams_session_timeout_ms: (
        streams.group_streams_min_session_timeout_ms,
        streams.group_streams_max_session_timeout_ms,
    ),
    streams_task_offset_interval_ms: (streams.group_streams_min_task_offset_interval_ms, None),
    streams_num_warmup_replicas: (None, streams.group_streams_max_warmup_replicas),
}

_ONLY_WHERE_GIVEN = frozenset(
    (consumer_assignment_interval_ms, share_assignment_interval_ms, streams_assignment_interval_ms)
)
_LIVENESS = (
    (consumer_heartbeat_interval_ms, consumer_session_timeout_ms),
    (share_heartbeat_interval_ms, share_session_timeout_ms),
    (streams_heartbeat_interval_ms, streams_session_timeout_ms),
)


def bounded(settings: ResourceSettings, setting: Setting[int]) -> int:
    """Return the effective value: the group's or the broker's, moved into the broker's bounds if
    those changed after it was set."""
    value: int = settings[setting]
    if setting not in BOUNDS or not settings.is_given(setting):
        return value
    low, high = BOUNDS[setting]
    if high is not None:
        value = min(value, settings.broker[high])
    return value if low is None else max(value, settings.broker[low])


def group_conflicts(settings: ResourceSettings) -> tuple[str, ...]:
    """Return the problems of these settings of a group together with the broker's."""
    found = []
    broker = settings.broker
    for setting, (low, high) in BOUNDS.items():
        name, value = setting.name, settings[setting]
        if setting in _ONLY_WHERE_GIVEN and not settings.is_given(setting):
            continue
        if low is not None and value < broker[low]:
            found.append(f"{name} must not be less than the broker's {low.name}, {broker[low]}")
        if high is not None and value > broker[high]:
            found.append(f"{name} must not exceed the broker's {high.name}, {broker[high]}")
    for heartbeat, session in _LIVENESS:
        if settings[session] <= settings[heartbeat]:
            found.append(f"{session.name} must be more than {heartbeat.name}")
    offered = broker[streams.group_streams_assignors]
    if settings[streams_assignor_name] not in offered:
        found.append(
            f"{streams_assignor_name.name} '{settings[streams_assignor_name]}' is not a registered "
            f"task assignor; the broker's {streams.group_streams_assignors.name} are "
            f"{', '.join(offered)}"
        )
    if settings[share_dlq_topic] and settings[errors_deadletterqueue_topic_name]:
        found.append(
            f"{share_dlq_topic.name} and {errors_deadletterqueue_topic_name.name} are two ways to "
            "the same thing: set one of them and delete the other"
        )
    return tuple(found)
