"""Guards of OffsetCommit and OffsetFetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.api.refused import refused_rows
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.broker.api.rights.items import ItemGuard
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from moldau.protocol.rights import Right

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client

_GROUP: Final = AclResource.GROUP
_GROUP_FAILED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_READ: Final = ItemGuard(Right(AclResource.TOPIC, AclOperation.READ), is_first=True)
_GROUPS: Final = ItemGuard(Right(_GROUP, AclOperation.DESCRIBE))
_TOPICS: Final = ItemGuard(Right(AclResource.TOPIC, AclOperation.DESCRIBE))
_GROUPS_SINCE: Final = 8
_GROUP_ERROR_SINCE: Final = 2


def guard_commit(
    client: Client, message: OffsetCommitRequest, version: int
) -> GuardedMessage | OffsetCommitResponse | None:
    """READ on the group, and on each topic."""
    if not client.may(_GROUP, AclOperation.READ, message.group_id):
        rows = refused_rows(OffsetCommitResponseTopic, message.topics, _GROUP_FAILED)
        return OffsetCommitResponse(topics=rows)
    return _READ(client, message, version)


def guard_fetch(
    client: Client, message: OffsetFetchRequest, version: int
) -> GuardedMessage | OffsetFetchResponse | None:
    """DESCRIBE on each group, and on each topic. If all topics of a group are asked for, the others
    are left out."""
    if version < _GROUPS_SINCE:
        return _guard_one(client, message, version)
    groups, out = _GROUPS.divide(client, message.groups)
    refused = refused_rows(OffsetFetchResponseGroup, out, _GROUP_FAILED, topics=[])
    left: list[OffsetFetchRequestGroup] = []
    hidden: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in groups:
        if group.topics is None:
            left.append(group)
            continue
        kept, unseen = _TOPICS.divide(client, group.topics)
        if unseen:
            rows = refused_rows(OffsetFetchResponseTopics, unseen, _TOPIC_FAILED, metadata="")
            hidden.setdefault(group.group_id, []).extend(rows)
        left.append(changed_group(group, kept))

    def finish(response: OffsetFetchResponse) -> None:
        of_all = {each.group_id for each in message.groups if each.topics is None}
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id in of_all:
                group.topics, _ = _TOPICS.divide(client, group.topics)
            group.topics = [*group.topics, *hidden.get(group.group_id, ())]
        response.groups = [*response.groups, *refused]

    return GuardedMessage(changed(message, groups=left), finish)


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


def _guard_one(
    client: Client, message: OffsetFetchRequest, version: int
) -> GuardedMessage | OffsetFetchResponse | None:
    """Before version 8 a request names one group."""
    if not client.may(_GROUP, AclOperation.DESCRIBE, message.group_id):
        if version >= _GROUP_ERROR_SINCE:
            return OffsetFetchResponse(error_code=_GROUP_FAILED)
        topics = message.topics or ()
        rows = refused_rows(OffsetFetchResponseTopic, topics, _GROUP_FAILED, metadata="")
        return OffsetFetchResponse(topics=rows)
    if message.topics is not None:
        return _TOPICS(client, message, version)

    def show(response: OffsetFetchResponse) -> None:
        response.topics, _ = _TOPICS.divide(client, response.topics)

    return GuardedMessage(message, show)
