"""Requests about groups in a few words, and names for members whose ids chance decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.differential.talk import Talk

Offsets = Mapping[str, Mapping[int, int]]

_IDS_SINCE = 10
_GROUPS_SINCE = 8


async def coordinated(talk: Talk) -> None:
    """Groups can be asked for when this returns."""

    async def is_up() -> bool:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        answer = await talk.send(request, FindCoordinatorResponse)
        if answer.coordinators[0].error_code:
            return False
        listed = await talk.send(ListGroupsRequest(), ListGroupsResponse)
        return listed.error_code == ErrorCode.NONE

    await talk.until(is_up)
    await talk.settled()


def commit(
    group: str, offsets: Offsets, ids: Mapping[str, bytes], **more: Any
) -> Callable[[int], OffsetCommitRequest]:
    """Topics by name, and by `ids` where the version wants that. `more`: member, epoch, instance,
    metadata, retention_ms; nobody's commit without them."""

    def request(version: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=more.get("epoch", -1),
            member_id=more.get("member", ""),
            group_instance_id=more.get("instance"),
            retention_time_ms=more.get("retention_ms", -1) if version <= 4 else -1,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if version >= _IDS_SINCE else topic,
                    topic_id=ids.get(topic, b"\x99" * 16) if version >= _IDS_SINCE else ZERO_UUID,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=0 if version >= 6 else -1,
                            committed_metadata=more.get("metadata", ""),
                        )
                        for index, offset in partitions.items()
                    ],
                )
                for topic, partitions in offsets.items()
            ],
        )

    return request


def fetch_offsets(
    groups: Mapping[str, Mapping[str, Sequence[int]] | None],
    ids: Mapping[str, bytes],
    *,
    stable: bool = False,
    member: str | None = None,
    epoch: int = -1,
) -> Callable[[int], OffsetFetchRequest]:
    """One group before version 8. None: all that it has committed."""

    def request(version: int) -> OffsetFetchRequest:
        is_stable = stable and version >= 7
        if version < _GROUPS_SINCE:
            ((group, topics),) = groups.items()
            named = None
            if topics is not None:
                named = [
                    OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes))
                    for name, indexes in topics.items()
                ]
            return OffsetFetchRequest(group_id=group, topics=named, require_stable=is_stable)
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    member_id=member if version >= 9 else None,
                    member_epoch=epoch if version >= 9 else -1,
                    topics=None if topics is None else _by_version(topics, ids, version),
                )
                for group, topics in groups.items()
            ],
            require_stable=is_stable,
        )

    return request


def _by_version(
    topics: Mapping[str, Sequence[int]], ids: Mapping[str, bytes], version: int
) -> list[OffsetFetchRequestTopics]:
    is_named = version < _IDS_SINCE
    return [
        OffsetFetchRequestTopics(
            name=name if is_named else "",
            topic_id=ZERO_UUID if is_named else ids.get(name, b"\x99" * 16),
            partition_indexes=list(indexes),
        )
        for name, indexes in topics.items()
    ]


def delete_offsets(group: str, topics: Mapping[str, Sequence[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in topics.items()
        ],
    )


def name_text(talk: Talk, text: str, name: str) -> None:
    """That text, of chance, goes by this name: in what was said already, and from here on."""
    if not text:
        return
    talk.symbols.call_text(text, name)
    talk.entries[:] = [
        replace(each, outcome=_named(each.outcome, text, name)) for each in talk.entries
    ]


def _named(value: Any, text: str, name: str) -> Any:
    if isinstance(value, str):
        return value.replace(text, name)
    if isinstance(value, list):
        return [_named(each, text, name) for each in value]
    if isinstance(value, dict):
        return {key: _named(each, text, name) for key, each in value.items()}
    return value
