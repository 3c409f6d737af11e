"""Guards of requests about groups and their offsets, and of FindCoordinator.

The requests of members (JoinGroup, Heartbeat, ...) check their one group in the handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.rights.guard import Guarded, changed
from moldau.broker.coordinator.kind import KeyType
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import NOT_ASKED, AclOperation, AclResource
from moldau.protocol.messages import consumer_group_describe as consumers
from moldau.protocol.messages import describe_groups as classics
from moldau.protocol.messages import share_group_describe as shares
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client
    from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

_GROUP: Final = AclResource.GROUP
_TOPIC: Final = AclResource.TOPIC
_DESCRIBE: Final = AclOperation.DESCRIBE
_GROUP_FAILED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_MANY_KEYS_SINCE: Final = 4
_ABOUT_KEYS: Final = {
    KeyType.GROUP: AclResource.GROUP,
    KeyType.TRANSACTION: AclResource.TRANSACTIONAL_ID,
}
_REASON: Final = "Authorization failed."


def guard_coordinator(
    client: Client, message: FindCoordinatorRequest, version: int
) -> Guarded | FindCoordinatorResponse | None:
    """DESCRIBE on each group or transactional id; CLUSTER_ACTION for share groups."""
    keys = message.coordinator_keys if version >= _MANY_KEYS_SINCE else [message.key]
    if message.key_type in _ABOUT_KEYS:
        resource = _ABOUT_KEYS[KeyType(message.key_type)]
        allowed = client.allowed(resource, _DESCRIBE, keys)
        is_group = resource is _GROUP
        code = _GROUP_FAILED if is_group else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif message.key_type == KeyType.SHARE:
        allowed = keys if client.may_on_cluster(AclOperation.CLUSTER_ACTION) else ()
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        return None
    refused = [
        Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message="")
        for key in keys
        if key not in allowed
    ]
    if not refused:
        return None
    if version < _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            error_code=code, error_message=_REASON, node_id=-1, host="", port=-1
        )

    def finish(response: FindCoordinatorResponse) -> None:
        response.coordinators = [*response.coordinators, *refused]

    left = [key for key in keys if key in allowed]
    return Guarded(changed(message, coordinator_keys=left), finish)


def guard_describe(
    client: Client, message: classics.DescribeGroupsRequest, version: int
) -> Guarded:
    """DESCRIBE on each group."""
    allowed = client.allowed(_GROUP, _DESCRIBE, message.groups)
    refused = [
        classics.DescribedGroup(
            error_code=_GROUP_FAILED,
            group_id=group_id,
            group_state="",
            protocol_type="",
            protocol_data="",
            members=[],
        )
        for group_id in message.groups
        if group_id not in allowed
    ]

    def finish(response: classics.DescribeGroupsResponse) -> None:
        for each in response.groups:
            if each.authorized_operations != NOT_ASKED:
                each.authorized_operations = client.operations(_GROUP, ALL_OF_GROUP, each.group_id)
        response.groups = [*refused, *response.groups]

    left = [each for each in message.groups if each in allowed]
    return Guarded(changed(message, groups=left), finish)


def guard_consumer_describe(
    client: Client, message: consumers.ConsumerGroupDescribeRequest, version: int
) -> Guarded:
    """DESCRIBE on each group, and on all topics that its members name or have."""
    return _guard_described(client, message, _not_described)


def guard_share_describe(
    client: Client, message: shares.ShareGroupDescribeRequest, version: int
) -> Guarded:
    """DESCRIBE on each group, and on all topics that its members name or have."""
    return _guard_described(client, message, _no_share_described)


def _guard_described(
    client: Client, message: Any, not_described: Callable[[str, ErrorCode], Any]
) -> Guarded:
    allowed = client.allowed(_GROUP, _DESCRIBE, message.group_ids)
    refused = [
        not_described(group_id, _GROUP_FAILED)
        for group_id in message.group_ids
        if group_id not in allowed
    ]

    def finish(response: Any) -> None:
        shown = []
        for each in response.groups:
            names = _topics_of(each)
            if len(client.allowed(_TOPIC, _DESCRIBE, names)) < len(names):
                described = not_described(each.group_id, _TOPIC_FAILED)
                described.error_message = (
                    "The group has described topic(s) that the client is not authorized to "
                    "describe."
                )
            else:
                described = each
                if each.authorized_operations != NOT_ASKED:
                    bits = client.operations(_GROUP, ALL_OF_GROUP, each.group_id)
                    each.authorized_operations = bits
            shown.append(described)
        response.groups = [*shown, *refused]

    left = [each for each in message.group_ids if each in allowed]
    return Guarded(changed(message, group_ids=left), finish)


def _topics_of(group: consumers.DescribedGroup | shares.DescribedGroup) -> set[str]:
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        names.update(each.topic_name for each in member.assignment.topic_partitions)
        if isinstance(member, consumers.Member):
            names.update(each.topic_name for each in member.target_assignment.topic_partitions)
    return names


def _no_share_described(group_id: str, code: ErrorCode) -> shares.DescribedGroup:
    return shares.DescribedGroup(
        error_code=code,
        error_message=None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _not_described(group_id: str, code: ErrorCode) -> consumers.DescribedGroup:
    return consumers.DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def guard_list(client: Client, message: ListGroupsRequest, version: int) -> Guarded | None:
    """DESCRIBE on the cluster shows all groups; else those with DESCRIBE are listed."""
    if client.may_on_cluster(_DESCRIBE):
        return None

    def finish(response: ListGroupsResponse) -> None:
        allowed = client.allowed(_GROUP, _DESCRIBE, (each.group_id for each in response.groups))
        response.groups = [each for each in response.groups if each.group_id in allowed]

    return Guarded(message, finish)


def guard_delete(client: Client, message: DeleteGroupsRequest, version: int) -> Guarded | None:
    """DELETE on each group."""
    allowed = client.allowed(_GROUP, AclOperation.DELETE, message.groups_names)
    refused = [
        DeletableGroupResult(group_id=name, error_code=_GROUP_FAILED)
        for name in dict.fromkeys(message.groups_names)
        if name not in allowed
    ]
    if not refused:
        return None

    def finish(response: DeleteGroupsResponse) -> None:
        response.results = [*response.results, *refused]

    left = [each for each in message.groups_names if each in allowed]
    return Guarded(changed(message, groups_names=left), finish)


def guard_heartbeat(
    client: Client, message: ConsumerGroupHeartbeatRequest, version: int
) -> ConsumerGroupHeartbeatResponse | None:
    """DESCRIBE on all topics that the member subscribes to by name (the handler checks the
    group)."""
    names = message.subscribed_topic_names
    if not names or not client.may(_GROUP, AclOperation.READ, message.group_id):
        return None
    if len(client.allowed(_TOPIC, _DESCRIBE, names)) == len(set(names)):
        return None
    return ConsumerGroupHeartbeatResponse(
        error_code=_TOPIC_FAILED, member_epoch=0, heartbeat_interval_ms=0
    )


def guard_offset_delete(
    client: Client, message: OffsetDeleteRequest, version: int
) -> Guarded | OffsetDeleteResponse | None:
    """DELETE on the group, and READ on each topic."""
    if not client.may(_GROUP, AclOperation.DELETE, message.group_id):
        return OffsetDeleteResponse(error_code=_GROUP_FAILED, topics=[])
    allowed = client.allowed(_TOPIC, AclOperation.READ, (each.name for each in message.topics))
    refused = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=_TOPIC_FAILED
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
        if topic.name not in allowed
    ]
    if not refused:
        return None

    def finish(response: OffsetDeleteResponse) -> None:
        if not response.error_code:
            response.topics = [*refused, *response.topics]

    left = [each for each in message.topics if each.name in allowed]
    return Guarded(changed(message, topics=left), finish)
