"""Guards of requests about groups and their offsets, and of FindCoordinator.

The requests of members (JoinGroup, Heartbeat, ...) check their one group in the handler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.refused import refused_rows
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.broker.api.rights.items import ItemGuard
from moldau.broker.coordinator.group.streams.graph import nodes_of
from moldau.broker.coordinator.kind import KeyType
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import NOT_ASKED, AclOperation, AclResource
from moldau.protocol.declare import Request, Struct
from moldau.protocol.messages import consumer_group_describe as consumers
from moldau.protocol.messages import describe_groups as classics
from moldau.protocol.messages import share_group_describe as shares
from moldau.protocol.messages import streams_group_describe as streams
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from moldau.protocol.rights import Right

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
_HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
_DESCRIBED: Final = ItemGuard(Right(_GROUP, _DESCRIBE))
_READ_TOPICS: Final = ItemGuard(Right(_TOPIC, AclOperation.READ), is_first=True)


def guard_coordinator(
    client: Client, message: FindCoordinatorRequest, version: int
) -> GuardedMessage | FindCoordinatorResponse | None:
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
    refused = refused_rows(
        Coordinator, (each for each in keys if each not in allowed), code, "", node_id=-1, port=-1
    )
    if not refused:
        return None
    if version < _MANY_KEYS_SINCE:
        return FindCoordinatorResponse(
            error_code=code, error_message=_REASON, node_id=-1, host="", port=-1
        )

    def finish(response: FindCoordinatorResponse) -> None:
        response.coordinators = [*response.coordinators, *refused]

    left = [key for key in keys if key in allowed]
    return GuardedMessage(changed(message, coordinator_keys=left), finish)


def guard_describe(
    client: Client, message: classics.DescribeGroupsRequest, version: int
) -> GuardedMessage:
    """DESCRIBE on each group."""
    left, out = _DESCRIBED.divide(client, message.groups)
    refused = refused_rows(classics.DescribedGroup, out, _GROUP_FAILED)

    def finish(response: classics.DescribeGroupsResponse) -> None:
        for each in response.groups:
            _set_operations(client, each)
        response.groups = [*refused, *response.groups]

    return GuardedMessage(changed(message, groups=left), finish)


def _set_operations(client: Client, group: Any) -> None:
    if group.authorized_operations != NOT_ASKED:
        group.authorized_operations = client.operations(_GROUP, ALL_OF_GROUP, group.group_id)


def guard_described(client: Client, message: _DescribeRequest, version: int) -> GuardedMessage:
    """DESCRIBE on each group, and on all topics that its members name or have. For streams groups
    these are the topics of the topology."""
    row = _DESCRIBED_ROWS[type(message)]
    left, out = _DESCRIBED.divide(client, message.group_ids)
    refused = refused_rows(row, out, _GROUP_FAILED)

    def finish(response: Any) -> None:
        shown = []
        for each in response.groups:
            is_streams = isinstance(each, streams.DescribedGroup)
            names = _topics_of_topology(each) if is_streams else _topics_of(each)
            if len(client.allowed(_TOPIC, _DESCRIBE, names)) < len(names):
                shown += refused_rows(row, [each.group_id], _TOPIC_FAILED, _HIDDEN_TOPICS)
            else:
                _set_operations(client, each)
                shown.append(each)
        response.groups = [*shown, *refused]

    return GuardedMessage(changed(message, group_ids=left), finish)


_DescribeRequest: TypeAlias = (
    consumers.ConsumerGroupDescribeRequest
    | shares.ShareGroupDescribeRequest
    | streams.StreamsGroupDescribeRequest
)
_DESCRIBED_ROWS: Final[Mapping[type[Request], type[Struct]]] = {
    consumers.ConsumerGroupDescribeRequest: consumers.DescribedGroup,
    shares.ShareGroupDescribeRequest: shares.DescribedGroup,
    streams.StreamsGroupDescribeRequest: streams.DescribedGroup,
}


def _topics_of(group: consumers.DescribedGroup | shares.DescribedGroup) -> set[str]:
    names: set[str] = set()
    for member in group.members:
        names.update(member.subscribed_topic_names)
        names.update(each.topic_name for each in member.assignment.topic_partitions)
        if isinstance(member, consumers.Member):
            names.update(each.topic_name for each in member.target_assignment.topic_partitions)
    return names


def _topics_of_topology(group: streams.DescribedGroup) -> set[str]:
    names: set[str] = set()
    if group.topology is not None:
        for each in group.topology.subtopologies or ():
            internal = (*each.repartition_source_topics, *each.state_changelog_topics)
            names.update(each.source_topics, each.repartition_sink_topics)
            names.update(topic.name for topic in internal)
    if group.topology_description is not None:
        for node in nodes_of(group.topology_description):
            names.update(node.source_topics, () if node.sink_topic is None else (node.sink_topic,))
    return names


def guard_list(client: Client, message: ListGroupsRequest, version: int) -> GuardedMessage | None:
    """DESCRIBE on the cluster shows all groups; else those with DESCRIBE are listed."""
    if client.may_on_cluster(_DESCRIBE):
        return None

    def finish(response: ListGroupsResponse) -> None:
        allowed = client.allowed(_GROUP, _DESCRIBE, (each.group_id for each in response.groups))
        response.groups = [each for each in response.groups if each.group_id in allowed]

    return GuardedMessage(message, finish)


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
) -> GuardedMessage | OffsetDeleteResponse | None:
    """DELETE on the group, and READ on each topic."""
    if not client.may(_GROUP, AclOperation.DELETE, message.group_id):
        return OffsetDeleteResponse(error_code=_GROUP_FAILED, topics=[])
    return _READ_TOPICS(client, message, version)
