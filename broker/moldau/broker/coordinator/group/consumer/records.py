"""The records of a consumer group, and their tombstones.

All are in version 0. Topics and partitions are sorted, so that the same state always gives the same
bytes.
"""

from __future__ import annotations

from typing import Final

from moldau.broker.coordinator.group.consumer.member import Profile
from moldau.broker.coordinator.group.consumer.partitions import Owned, Partitions
from moldau.broker.coordinator.group.consumer.reconciliation import Progress
from moldau.broker.coordinator.group.consumer.regex import ResolvedRegex
from moldau.broker.coordinator.outcome import LogRecord
from moldau.ids import Uuid
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

VERSION: Final = 0


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    """Record 3: the group epoch and the metadata hash."""
    return LogRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
        VERSION,
    )


def group_deleted(group_id: str) -> LogRecord:
    """Return the tombstone of record 3, which deletes the group."""
    return LogRecord(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_deleted(group_id: str) -> LogRecord:
    """Return the tombstone of record 4, which Kafka wrote before 4.1."""
    return LogRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_profile(group_id: str, member_id: str, profile: Profile) -> LogRecord:
    """Record 5: a member's identity and subscription."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topic_names),
        subscribed_topic_regex=profile.topic_regex,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        server_assignor=profile.server_assignor,
        classic_member_metadata=profile.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return LogRecord(key, value, VERSION)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> LogRecord:
    """Record 6: the epoch of the target assignment, and its time."""
    return LogRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
        VERSION,
    )


def target_epoch_deleted(group_id: str) -> LogRecord:
    """Return the tombstone of record 6."""
    return LogRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def target_of_member(group_id: str, member_id: str, partitions: Partitions) -> LogRecord:
    """Record 7: a member's part of the target assignment."""
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
    ]
    return LogRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics),
        VERSION,
    )


def target_of_member_deleted(group_id: str, member_id: str) -> LogRecord:
    """Return the tombstone of record 7."""
    return LogRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def member_progress(group_id: str, member_id: str, progress: Progress[Uuid]) -> LogRecord:
    """Record 8: a member's progress."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=progress.epoch,
        previous_member_epoch=progress.previous_epoch,
        state=progress.state.value,
        assigned_partitions=_with_epochs(progress.assigned),
        partitions_pending_revocation=_with_epochs(progress.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return LogRecord(key, value, VERSION)


def member_deleted(group_id: str, member_id: str) -> tuple[LogRecord, LogRecord, LogRecord]:
    """Return the tombstones of records 8, 7 and 5, in the order that readers rely on."""
    return (
        member_progress_deleted(group_id, member_id),
        target_of_member_deleted(group_id, member_id),
        member_profile_deleted(group_id, member_id),
    )


def member_progress_deleted(group_id: str, member_id: str) -> LogRecord:
    """Return the tombstone of record 8: the member owns nothing."""
    return LogRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    )


def member_profile_deleted(group_id: str, member_id: str) -> LogRecord:
    """Return the tombstone of record 5, which deletes the member."""
    return LogRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def regex_resolved(group_id: str, regex: str, resolved: ResolvedRegex) -> LogRecord:
    """Record 16: the topics that an expression matches."""
    return LogRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        ),
        VERSION,
    )


def regex_deleted(group_id: str, regex: str) -> LogRecord:
    """Return the tombstone of record 16: no member uses the expression any more."""
    return LogRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def _with_epochs(owned: Owned) -> list[TopicPartitions]:
    topics = []
    for topic_id in sorted(owned):
        partitions = sorted(owned[topic_id])
        epochs = [owned[topic_id][each] for each in partitions]
        topics.append(
            TopicPartitions(topic_id=topic_id, partitions=partitions, assignment_epochs=epochs)
        )
    return topics
