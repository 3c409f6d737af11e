"""The settings of a group's member, by Kafka's names; part of the consumer's table."""

from __future__ import annotations

from typing import Final

from moldau.config import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    Setting,
    Settings,
    at_least,
    every,
    list_of,
    not_empty,
    one_of_ignoring_case,
    rows_in,
    sendable,
)

# fmt: off
group_id = Setting("group.id", STRING, None, check=sendable(),
    doc="The group that shares the partitions of its topics and keeps their offsets. Needed to "
    "subscribe and to commit.")
group_protocol = Setting(
    "group.protocol", STRING, "classic", check=one_of_ignoring_case("classic", "consumer"),
    doc="How members share partitions: classic (one of them decides), or consumer (the coordinator "
    "does, KIP-848; needs Kafka 4.0).")
group_instance_id = Setting("group.instance.id", STRING, None, check=every(not_empty(), sendable()),
    doc="Makes this a static member (KIP-345): when it comes back under this name before its "
    "session ends, it finds its partitions again without a rebalance.")
group_remote_assignor = Setting("group.remote.assignor", STRING, None, check=sendable(),
    doc="Which of the coordinator's assignors to use; its first one if not told. For the consumer "
    "protocol.")
partition_assignment_strategy = Setting(
    "partition.assignment.strategy", LIST, ("range", "cooperative-sticky"),
    check=list_of(empty_allowed=False),
    doc="The assignors that this member can use, the best first: range, roundrobin, sticky, "
    "cooperative-sticky (or the names of Java's classes), and those of plugins. The group takes "
    "one that all members have. For the classic protocol.")
session_timeout_ms = Setting("session.timeout.ms", INT, 45_000, check=at_least(1),
    doc="A member that is not heard of for this long is taken for dead. For the classic protocol.")
heartbeat_interval_ms = Setting("heartbeat.interval.ms", INT, 3_000, check=at_least(1),
    doc="How often a member tells that it lives; a third of the session timeout at most is wise. "
    "For the classic protocol.")
max_poll_interval_ms = Setting("max.poll.interval.ms", INT, 300_000, check=at_least(1),
    doc="A member that does not poll for this long leaves its group, and others get its "
    "partitions. Handlers of what one poll gives must be done before.")
enable_auto_commit = Setting("enable.auto.commit", BOOLEAN, None,
    doc="Whether what was given out by earlier polls is committed by itself: every "
    "auto.commit.interval.ms, before partitions are given up, and when the consumer is closed. On "
    "unless there is no group.id.")
auto_commit_interval_ms = Setting("auto.commit.interval.ms", INT, 5_000, check=at_least(0),
    doc="How often offsets are committed by themselves.")
exclude_internal_topics = Setting("exclude.internal.topics", BOOLEAN, True,
    doc="Whether a pattern passes over topics that Kafka keeps for itself. One that the "
    "coordinator matches (a text, with group.protocol=consumer) finds them all the same.")

GROUP_ROWS: Final = rows_in(globals())

rebalance_timeout_ms = Setting("rebalance.timeout.ms", INT, 60_000, check=at_least(1),
    doc="How long the group waits for a member to join again when it rebalances: a member that "
    "takes longer is removed. For GroupMember; a consumer has max.poll.interval.ms instead.")
# fmt: on


def commits_by_itself(settings: Settings) -> bool:
    """As told, else whenever there is a group."""
    told = settings[enable_auto_commit]
    return settings[group_id] is not None if told is None else told


def group_is_whole(settings: Settings) -> str | None:
    """What needs a group.id has one."""
    if settings[group_id] is not None:
        return "group.id must not be empty" if not settings[group_id] else None
    if settings[enable_auto_commit]:
        return "enable.auto.commit needs a group.id"
    if settings[group_instance_id] is not None:
        return "group.instance.id needs a group.id"
    return None


def coordinator_decides(settings: Settings) -> bool:
    """Whether partitions are shared by KIP-848."""
    return settings[group_protocol].lower() == "consumer"


def fits_protocol(settings: Settings) -> str | None:
    """Nothing is set that the other protocol decides."""
    if not coordinator_decides(settings):
        if settings.is_given(group_remote_assignor):
            return "group.remote.assignor needs group.protocol=consumer"
        return None
    rows = (session_timeout_ms, heartbeat_interval_ms, partition_assignment_strategy)
    given = [row.name for row in rows if settings.is_given(row)]
    if given:
        return f"with group.protocol=consumer the broker decides about {', '.join(given)}"
    return None


def beats_often_enough(settings: Settings) -> str | None:
    """A session is longer than the time between heartbeats."""
    if settings[heartbeat_interval_ms] < settings[session_timeout_ms]:
        return None
    return "heartbeat.interval.ms must be less than session.timeout.ms"
