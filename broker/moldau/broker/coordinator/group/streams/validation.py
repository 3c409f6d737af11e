"""Checks of a heartbeat that do not depend on any group.

Order and codes are Kafka's: a request with two errors is answered with the same one.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    Topology,
)


def check_heartbeat(message: StreamsGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY for an invalid heartbeat."""
    _check_unsupported(message)
    for value, name in (
        (message.member_id, "MemberId"),
        (message.group_id, "GroupId"),
        (message.instance_id, "InstanceId"),
        (message.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if message.member_epoch == 0:
        _check_join(message)
    elif message.member_epoch == STATIC_LEAVING_EPOCH:
        if message.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif message.member_epoch < STATIC_LEAVING_EPOCH:
        epoch = message.member_epoch
        raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    given = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    if any(each is not None for each in given) and None in given:
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if message.member_epoch != 0 and message.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")
    for offsets in (message.task_offsets, message.task_end_offsets):
        if offsets:
            _check_named_once(offsets)


def _check_unsupported(message: StreamsGroupHeartbeatRequest) -> None:
    if message.topology is not None:
        for subtopology in message.topology.subtopologies:
            if subtopology.source_topic_regex:
                text = "Regular expressions for source topics are not supported yet."
                raise _invalid(text)


def _check_join(message: StreamsGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (message.active_tasks, "ActiveTasks"),
        (message.standby_tasks, "StandbyTasks"),
        (message.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise _invalid(f"{name} must be empty when (re-)joining.")
    if message.topology is None:
        raise _invalid("Topology must be non-null when (re-)joining.")
    _check_topology(message.topology)


def _check_named_once(offsets: Iterable[TaskOffset]) -> None:
    """Reject two offsets of one task: nothing says which of them counts."""
    seen = set()
    for each in offsets:
        task = each.subtopology_id, each.partition
        if task in seen:
            raise _invalid(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and "
                f"partition {each.partition}."
            )
        seen.add(task)


def _check_topology(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}.",
                )
        _check_copartition_groups(subtopology)


def _check_copartition_groups(subtopology: Subtopology) -> None:
    """Reject a group that names a topic which the subtopology does not have."""
    sources = range(len(subtopology.source_topics))
    repartitions = range(len(subtopology.repartition_source_topics))
    for group in subtopology.copartition_groups:
        if not (
            all(each in sources for each in group.source_topics)
            and all(each in repartitions for each in group.repartition_source_topics)
        ):
            text = f"a copartition group of {subtopology.subtopology_id} names an unknown topic"
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
