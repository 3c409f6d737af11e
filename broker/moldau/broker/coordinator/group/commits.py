"""Decisions about committing and deleting offsets, over the table of groups.

Checks that do not concern groups come before: the topics here have names and exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.contract import GroupKind
from moldau.broker.coordinator.group.groups import touch_if_nearer
from moldau.broker.coordinator.group.offsets import NO_EXPIRY, tombstone
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.coordinator.parked import as_answer
from moldau.broker.settings.offset import offset_metadata_max_bytes
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import Group, PartitionCheck
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.config import Settings
    from moldau.protocol.messages.offset_commit import (
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

_GROUP_NOT_FOUND_SINCE: Final = 9
_BROKER_RETENTION: Final = -1
_LATEST_MS: Final = 2**63 - 1
VALUE_VERSION: Final = 4
_VALUE_VERSION_WITH_EXPIRY: Final = 1


def commit(
    groups: Groups, message: OffsetCommitRequest, version: int, ticket: Ticket, now_ms: int
) -> Outcome:
    """Decide an OffsetCommit of a member, or of a client that reads without joining a group."""
    group = groups.get(message.group_id)
    check = _check(groups, group, message, version)
    if group is not None and group.kind is GroupKind.CLASSIC:
        group.on_commit(message.member_id, now_ms)
        touch_if_nearer(groups, group)
    wall_ms = groups.services.wall_ms(now_ms)
    records: list[LogRecord] = []
    answer = OffsetCommitResponse(topics=[])
    for topic in message.topics:
        answered = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=[]
        )
        answer.topics.append(answered)
        for partition in topic.partitions:
            code = ErrorCode.NONE
            if is_too_large(partition.committed_metadata, groups.services.settings):
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check is not None:  # an error raised here rejects the whole commit
                    check(topic.name, topic.topic_id, partition.partition_index)
                records.append(_record(message, topic, partition, wall_ms))
            answered.partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
            )

    groups.services.counts.offsets_committed.value += len(records)

    def on_failure(error: KafkaError, now_ms: int) -> Outcome:
        return Outcome(answers=((ticket, commit_refusal(message, refusal_of_append(error))),))

    return Outcome(tuple(records), ((ticket, answer),), on_failure=on_failure)


def commit_refusal(message: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """Return a response with the error at each partition: it has no other field for an error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=error.code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _check(
    groups: Groups, group: Group | None, message: OffsetCommitRequest, version: int
) -> PartitionCheck | None:
    epoch = message.generation_id_or_member_epoch
    if group is None:
        if epoch < 0:
            return None  # an admin tool, or a consumer that assigns its partitions itself
        if version >= _GROUP_NOT_FOUND_SINCE:
            groups.existing(message.group_id)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return group.check_commit(
        message.member_id, message.group_instance_id, epoch, version, is_txn=False
    )


def is_too_large(metadata: str | None, settings: Settings) -> bool:
    """Whether the metadata is too long. As in Kafka the unit is a Java char, although the setting's
    name says bytes."""
    if not metadata:
        return False
    length = len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le")) // 2
    return length > settings[offset_metadata_max_bytes]


def _record(
    message: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    wall_ms: int,
) -> LogRecord:
    retention_ms = message.retention_time_ms
    expires_ms = NO_EXPIRY
    if retention_ms != _BROKER_RETENTION:
        expires_ms = min(wall_ms + retention_ms, _LATEST_MS)  # a huge value means "forever"
    return LogRecord(
        OffsetCommitKey(
            group=message.group_id, topic=topic.name, partition=partition.partition_index
        ),
        OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=wall_ms,
            expire_timestamp=expires_ms,
            topic_id=topic.topic_id,
        ),
        VALUE_VERSION if expires_ms == NO_EXPIRY else _VALUE_VERSION_WITH_EXPIRY,
    )


def refusal_of_append(error: KafkaError) -> KafkaError:
    """Return the client's error for a commit that the log rejected. A batch that is too large is
    the client's fault."""
    if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    return as_answer(error)


def delete_offsets(groups: Groups, message: OffsetDeleteRequest, ticket: Ticket) -> Outcome:
    """Decide an OffsetDelete: delete the offsets of partitions that no member reads."""
    group_id = message.group_id
    group = groups.existing(group_id)
    group.check_offset_delete()
    records: list[LogRecord] = []
    answer = OffsetDeleteResponse(error_code=0, topics=[])
    for topic in message.topics:
        is_read = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        indexes = [each.partition_index for each in topic.partitions]
        answer.topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                    for index in indexes
                ],
            )
        )
        if is_read:
            continue
        for index in indexes:
            is_there = groups.offsets.get(group_id, topic.name, index) is not None
            if is_there or groups.offsets.is_pending(group_id, topic.name, index):
                records.append(tombstone(group_id, topic.name, index))
    groups.services.counts.offsets_deleted.value += len(records)
    return Outcome(tuple(records), ((ticket, answer),))


def delete_group(groups: Groups, group_id: str, ticket: Ticket) -> Outcome:
    """Decide a DeleteGroups for one group: delete it with all its offsets."""
    group = groups.existing(group_id)
    group.check_delete()
    groups.forget_if_bare(group_id)
    records = (*groups.offsets.tombstones(group_id), *group.tombstones())
    result = DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE)
    answer = DeleteGroupsResponse(results=[result])
    return Outcome(records, ((ticket, answer),))
