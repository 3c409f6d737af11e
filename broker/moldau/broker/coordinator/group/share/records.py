"""The records of a share group, and their tombstones. All are in version 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.share.member import Member
from moldau.broker.coordinator.outcome import LogRecord
from moldau.ids import Uuid
from moldau.protocol.schemas import share_group_log as log

VERSION: Final = 0
_STABLE: Final = 0
"""The only state of a member: it never waits for others."""


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """Record 11: the group epoch and the metadata hash."""
    value = log.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return LogRecord(log.ShareGroupMetadataKey(group_id=group_id), value, VERSION)


def member_profile(group_id: str, member: Member) -> LogRecord:
    """Record 10: a member's identity and subscription."""
    profile = member.profile
    return LogRecord(
        log.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        log.ShareGroupMemberMetadataValue(
            rack_id=profile.rack_id,
            client_id=profile.client_id,
            client_host=profile.client_host,
            subscribed_topic_names=sorted(profile.topic_names),
        ),
        VERSION,
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> LogRecord:
    """Record 12: the epoch of the target assignment, and its time."""
    value = log.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return LogRecord(log.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value, VERSION)


def target_of_member(group_id: str, member_id: str, partitions: Partitions) -> LogRecord:
    """Record 13: a member's part of the target assignment."""
    topics = [
        log.TopicPartition(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
    ]
    return LogRecord(
        log.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        log.ShareGroupTargetAssignmentMemberValue(topic_partitions=topics),
        VERSION,
    )


def member_assignment(group_id: str, member: Member) -> LogRecord:
    """Record 14: a member's epoch and partitions."""
    topics = [
        log.TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
        for topic_id in sorted(member.assigned)
    ]
    return LogRecord(
        log.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        log.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=_STABLE,
            assigned_partitions=topics,
        ),
        VERSION,
    )


def state_partitions(
    group_id: str,
    initializing: Partitions,
    initialized: Partitions,
    deleting: Collection[Uuid],
    names: Mapping[Uuid, str],
) -> LogRecord:
    """Record 15: the share partitions that have a state, that are about to, and topics that go."""
    value = log.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(initializing, names),
        initialized_topics=_infos(initialized, names),
        deleting_topics=[
            log.TopicInfo(topic_id=topic_id, topic_name=names.get(topic_id, ""))
            for topic_id in sorted(deleting)
        ],
    )
    return LogRecord(log.ShareGroupStatePartitionMetadataKey(group_id=group_id), value, VERSION)


def _infos(topics: Partitions, names: Mapping[Uuid, str]) -> list[log.TopicPartitionsInfo]:
    return [
        log.TopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=names.get(topic_id, ""),
            partitions=sorted(topics[topic_id]),
        )
        for topic_id in sorted(topics)
    ]


def member_deleted(group_id: str, member_id: str) -> tuple[LogRecord, ...]:
    """Return the tombstones of records 14, 13 and 10, in the order that readers rely on."""
    return (
        LogRecord(log.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        LogRecord(log.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        LogRecord(log.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_deleted(group_id: str) -> tuple[LogRecord, ...]:
    """Return the tombstones of records 12, 15 and 11."""
    return (
        LogRecord(log.ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        LogRecord(log.ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        LogRecord(log.ShareGroupMetadataKey(group_id=group_id)),
    )
