"""OffsetCommit and OffsetFetch: making requests and reading responses. No IO.

Topics are named by id if the broker supports that (version 10, KIP-848) and all ids are known, so
that nothing is committed to a new topic with an old name; else by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.group.member import Identity
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

NEWEST_WITH_NAMES: Final = 9
MANY_GROUPS: Final = 8
STABLE_OFFSETS: Final = 7
"""Brokers before it cannot report that a transaction may still change an offset (KIP-447)."""
NOT_COMMITTED: Final = -1


class FetchedOffsets(NamedTuple):
    """A group's offsets from one response: the whole group's error, offsets, partitions' errors."""

    error_code: int
    offsets: dict[TopicPartition, OffsetAndMetadata]
    errors: dict[TopicPartition, int]


def commit_request(
    group_id: str,
    member: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[TopicPartition, Uuid] | None,
) -> OffsetCommitRequest:
    """Return a request to commit these offsets, for a member or for none. By their ids, partitions
    of one name may be of several topics."""
    by_topic: dict[tuple[str, Uuid], list[OffsetCommitRequestPartition]] = {}
    for where, each in offsets.items():
        partition = OffsetCommitRequestPartition(
            partition_index=where.partition,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            committed_metadata=each.metadata,
        )
        topic_id = ids[where] if ids else ZERO_UUID
        by_topic.setdefault((where.topic, topic_id), []).append(partition)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=found)
            for (name, topic_id), found in by_topic.items()
        ],
    )


def commit_codes(
    answer: OffsetCommitResponse, ids: Mapping[TopicPartition, Uuid] | None
) -> dict[TopicPartition, int]:
    """Return the error code of each partition."""
    names = {each: where.topic for where, each in (ids or {}).items()}
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), each.partition_index): (
            each.error_code
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def fetch_request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    ids: Mapping[str, Uuid] | None = None,
) -> tuple[OffsetFetchRequest, OffsetFetchRequest]:
    """Return the requests for the offsets of these partitions, or of all: one for brokers that
    support several groups, one for those before Kafka 3.0."""
    by_topic: dict[str, list[int]] = {}
    for where in partitions or ():
        by_topic.setdefault(where.topic, []).append(where.partition)
    new = [
        OffsetFetchRequestTopics(
            name=name, topic_id=ids[name] if ids else ZERO_UUID, partition_indexes=found
        )
        for name, found in by_topic.items()
    ]
    old = [
        OffsetFetchRequestTopic(name=name, partition_indexes=found)
        for name, found in by_topic.items()
    ]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None if partitions is None else new)
    return (
        OffsetFetchRequest(groups=[group], require_stable=require_stable),
        OffsetFetchRequest(
            group_id=group_id,
            topics=None if partitions is None else old,
            require_stable=require_stable,
        ),
    )


def fetched(answer: OffsetFetchResponse, ids: Mapping[str, Uuid] | None = None) -> FetchedOffsets:
    """Read the response to either request."""
    names = {each: name for name, each in (ids or {}).items()}
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    errors: dict[TopicPartition, int] = {}
    rows = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
    code = answer.error_code
    for group in answer.groups:
        code = group.error_code
        rows += [
            (topic.name or names.get(topic.topic_id, ""), each)  # type: ignore[misc]
            for topic in group.topics
            for each in topic.partitions
        ]
    for name, each in rows:
        where = TopicPartition(name, each.partition_index)
        if each.error_code:
            errors[where] = each.error_code
        elif each.committed_offset != NOT_COMMITTED:
            offsets[where] = OffsetAndMetadata(
                each.committed_offset, each.metadata or "", each.committed_leader_epoch
            )
    return FetchedOffsets(code, offsets, errors)
