"""Answers to requests for committed offsets, from the table of groups. They change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.group.offsets import PartitionCommit
    from moldau.ids import Uuid

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


def fetch_offsets(
    groups: Groups, message: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets of one group. Its topics have names; None means all topics with offsets. A
    KafkaError is raised for the whole group."""
    group_id = message.group_id
    group = groups.get(group_id)
    known: Mapping[str, Mapping[int, PartitionCommit]] = {}
    if group is not None:
        group.check_fetch(message.member_id, message.member_epoch)
        known = groups.offsets.of_group(group_id)
    wanted: list[tuple[str, Uuid, list[int]]]
    if message.topics is None:
        wanted = [(topic, ZERO_UUID, list(partitions)) for topic, partitions in known.items()]
    else:
        wanted = [(each.name, each.topic_id, each.partition_indexes) for each in message.topics]
    answer = OffsetFetchResponseGroup(group_id=group_id, topics=[])
    for topic, topic_id, indexes in wanted:
        partitions = known.get(topic, {})
        answer.topics.append(
            OffsetFetchResponseTopics(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    _unstable(index)
                    if require_stable and groups.offsets.is_pending(group_id, topic, index)
                    else _partition(index, partitions.get(index), topic_id)
                    for index in indexes
                ],
            )
        )
    return answer


def fetch_refusal(message: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    """Return the response for a group that cannot be read."""
    return OffsetFetchResponseGroup(group_id=message.group_id, topics=[], error_code=error.code)


def _partition(
    index: int, committed: PartitionCommit | None, topic_id: Uuid
) -> OffsetFetchResponsePartitions:
    """Return the committed offset of one partition. An offset of an earlier topic of this name does
    not count."""
    if committed is None or (
        ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id
    ):
        return none_at(index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return none_at(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def none_at(index: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    """Return the row of a partition without an offset, perhaps with an error."""
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_EPOCH,
        metadata="",
        error_code=code,
    )
