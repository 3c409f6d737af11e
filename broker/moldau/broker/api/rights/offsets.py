"""Guards of OffsetCommit and OffsetFetch."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from moldau.broker.api.rights.guard import Guarded, changed
from moldau.broker.coordinator.group.fetches import none_at
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client

_GROUP: Final = AclResource.GROUP
_TOPIC: Final = AclResource.TOPIC
_GROUP_FAILED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_IDS_SINCE: Final = 10
_GROUPS_SINCE: Final = 8
_GROUP_ERROR_SINCE: Final = 2


def guard_commit(
    client: Client, message: OffsetCommitRequest, version: int
) -> Guarded | OffsetCommitResponse | None:
    """READ on the group, and on each topic."""
    if not client.may(_GROUP, AclOperation.READ, message.group_id):
        return OffsetCommitResponse(
            topics=[_uncommitted(each, _GROUP_FAILED) for each in message.topics]
        )
    names = [
        each.name if version < _IDS_SINCE else client.name_of(each.topic_id)
        for each in message.topics
    ]
    allowed = client.allowed(_TOPIC, AclOperation.READ, (each for each in names if each))
    refused, left = [], []
    for name, topic in zip(names, message.topics, strict=True):
        if name and name not in allowed:
            refused.append(_uncommitted(topic, _TOPIC_FAILED))
        else:
            left.append(topic)
    if not refused:
        return None

    def finish(response: OffsetCommitResponse) -> None:
        response.topics = [*refused, *response.topics]

    return Guarded(changed(message, topics=left), finish)


def _uncommitted(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def guard_fetch(
    client: Client, message: OffsetFetchRequest, version: int
) -> Guarded | OffsetFetchResponse | None:
    """DESCRIBE on each group, and on each topic. If all topics of a group are asked for, the others
    are left out."""
    if version < _GROUPS_SINCE:
        return _guard_one(client, message, version)
    groups = client.allowed(
        _GROUP, AclOperation.DESCRIBE, (each.group_id for each in message.groups)
    )
    refused = [
        OffsetFetchResponseGroup(group_id=each.group_id, topics=[], error_code=_GROUP_FAILED)
        for each in message.groups
        if each.group_id not in groups
    ]
    left: list[OffsetFetchRequestGroup] = []
    hidden: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in message.groups:
        if group.group_id not in groups:
            continue
        if group.topics is None:
            left.append(group)
            continue
        names = [
            each.name if version < _IDS_SINCE else client.name_of(each.topic_id)
            for each in group.topics
        ]
        shown = client.allowed(_TOPIC, AclOperation.DESCRIBE, (each for each in names if each))
        kept = []
        for name, topic in zip(names, group.topics, strict=True):
            if name and name not in shown:
                hidden.setdefault(group.group_id, []).append(_hidden(topic))
            else:
                kept.append(topic)
        left.append(changed_group(group, kept))

    def finish(response: OffsetFetchResponse) -> None:
        of_all = {each.group_id for each in message.groups if each.topics is None}
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id in of_all:
                seen = _shown(client, [each.name for each in group.topics])
                group.topics = [each for each in group.topics if each.name in seen]
            group.topics = [*group.topics, *hidden.get(group.group_id, ())]
        response.groups = [*response.groups, *refused]

    return Guarded(changed(message, groups=left), finish)


def changed_group(
    group: OffsetFetchRequestGroup, topics: list[OffsetFetchRequestTopics]
) -> OffsetFetchRequestGroup:
    """Return a copy of the group's part with other topics."""
    return OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=topics,
    )


def _hidden(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[none_at(each, _TOPIC_FAILED) for each in topic.partition_indexes],
    )


def _shown(client: Client, names: list[str]) -> Collection[str]:
    return client.allowed(_TOPIC, AclOperation.DESCRIBE, names)


def _guard_one(
    client: Client, message: OffsetFetchRequest, version: int
) -> Guarded | OffsetFetchResponse | None:
    """Before version 8 a request names one group."""
    asked = message.topics
    if not client.may(_GROUP, AclOperation.DESCRIBE, message.group_id):
        if version >= _GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=_GROUP_FAILED)
        return OffsetFetchResponse(topics=[_flat(each, _GROUP_FAILED) for each in asked or ()])
    if asked is None:

        def show(response: OffsetFetchResponse) -> None:
            seen = _shown(client, [each.name for each in response.topics])
            response.topics = [each for each in response.topics if each.name in seen]

        return Guarded(message, show)
    shown = _shown(client, [each.name for each in asked])
    refused = [_flat(each, _TOPIC_FAILED) for each in asked if each.name not in shown]
    if not refused:
        return None

    def finish(response: OffsetFetchResponse) -> None:
        if not response.error_code:
            response.topics = [*response.topics, *refused]

    left = [each for each in asked if each.name in shown]
    return Guarded(changed(message, topics=left), finish)


def _flat(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=code,
            )
            for each in topic.partition_indexes
        ],
    )
