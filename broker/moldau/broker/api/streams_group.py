"""StreamsGroupHeartbeat, StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate: members of
streams groups (KIP-1071), and the graph of their topology (KIP-1331)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from moldau.broker.api.forwarding import submit
from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.group_describing import DescribeApi, handler
from moldau.broker.api.internal_topics import is_internal
from moldau.broker.api.refused import error_response
from moldau.broker.controller.levels import STREAMS_VERSION
from moldau.broker.controller.topic_names import check_topic_name
from moldau.broker.coordinator.group.groups import streams_group
from moldau.broker.coordinator.group.streams.graph import GraphStatus
from moldau.broker.coordinator.group.streams.validation import check_heartbeat
from moldau.broker.decision.context import of_node
from moldau.broker.settings import network
from moldau.broker.settings.coordinator import group_coordinator_rebalance_protocols
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Request as Message
from moldau.protocol.declare import Response
from moldau.protocol.messages import streams_group_describe as describing
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from moldau.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.config import Settings

_NAME: Final = "StreamsGroupHeartbeat"
_GRAPH_NAME: Final = "StreamsGroupTopologyDescriptionUpdate"
_LAST_CREATE_VERSION: Final = CreateTopicsRequest.spec.versions.last

OnCreated: TypeAlias = "Callable[[Collection[str], Mapping[str, str]], None]"
"""Gets the topics that exist now, and the reason for each of the others."""


def serves_streams_groups(node: Node) -> bool:
    """Whether the feature of KIP-1071 is finalized in the cluster and enabled on this broker."""
    is_agreed = node.image.features.levels.get(STREAMS_VERSION, 0) >= 1
    return is_agreed and _is_switched_on(node.settings)


@lru_cache(1)
def _is_switched_on(settings: Settings) -> bool:
    """Whether the setting enables streams groups. Cached until the settings change, because every
    heartbeat calls it."""
    return "streams" in settings[group_coordinator_rebalance_protocols]


def serve_heartbeat(node: Node, request: ApiRequest) -> None:
    """Let the group decide. Checks that do not need the group come first, in Kafka's order."""
    message = cast(StreamsGroupHeartbeatRequest, request.decode())
    if not serves_streams_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if message.topology is not None:
        _check_topics(node, request, message.topology)
    check_heartbeat(message)
    _submit(node, request, message.group_id, message, _NAME)


def serve_topology_description(node: Node, request: ApiRequest) -> None:
    """Let the group keep the graph that a member gives."""
    message = cast(StreamsGroupTopologyDescriptionUpdateRequest, request.decode())
    if not serves_streams_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for value, name in ((message.group_id, "GroupId"), (message.member_id, "MemberId")):
        if not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if message.topology_epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "TopologyEpoch can't be negative.")
    _submit(node, request, message.group_id, message, _GRAPH_NAME)


def _submit(node: Node, request: ApiRequest, group_id: str, message: Message, name: str) -> None:
    """Let the shard of the group decide about a request of a member."""
    context = request.context

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            arrival = request.arrival
            refused = error_response(arrival.key, arrival.version, response)
            assert refused is not None
            response = refused
        request.answer(response)

    node.groups.submit(
        group_id,
        lambda groups, now_ms: groups.on_request(message, context, answer, now_ms),
        answer,
        name,
    )


def _check_topics(node: Node, request: ApiRequest, topology: Topology) -> None:
    """Check the names of all topics of a topology, and whether the client may describe them."""
    names = dict.fromkeys(
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    internal = [name for name in names if is_internal(name)]
    if internal:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text + "prohibited.")
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if len(set(allowed(node, request, AclResource.TOPIC, names))) < len(names):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def create_internal_topics(
    node: Node, topics: Sequence[CreatableTopic], on_created: OnCreated
) -> None:
    """Ask the controller for internal topics of a streams group. The group has checked that its
    member may create them."""

    def answered(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            on_created((), {each.name: response.code.name for each in topics})
            return
        created, errors = [], {}
        for each in cast(CreateTopicsResponse, response).topics:
            if each.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                created.append(each.name)
            else:
                errors[each.name] = each.error_message or ErrorCode(each.error_code).name
        for name, reason in errors.items():
            node.log.warn("internal topic not created", topic=name, reason=reason)
        on_created(created, errors)

    timeout_ms = node.settings[network.request_timeout_ms]
    message = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)
    context = of_node(node.node_id, _LAST_CREATE_VERSION)
    try:
        submit(node, message, context, answered, timeout_ms=timeout_ms)
    except KafkaError as error:  # the controller on this node decides at once
        answered(error)


def _described_group(**named: Any) -> describing.DescribedGroup:
    """Return a description of a group that could not be described: it has no assignor."""
    return describing.DescribedGroup(**{**named, "assignor_name": None})


def _describe(groups: Groups, group_id: str, message: Any) -> describing.DescribedGroup:
    """Return the description, with the graph of the topology if it is asked for."""
    group = streams_group(groups, group_id)
    found = group.describe()
    if message.include_topology_description:
        found.topology_description = group.graph()
        is_known = found.topology_description is not None
        status = GraphStatus.AVAILABLE if is_known else GraphStatus.NOT_STORED
        found.topology_description_status = status
    return found


serve_describe: Final = handler(
    DescribeApi(
        "StreamsGroupDescribe",
        serves_streams_groups,
        describing.StreamsGroupDescribeResponse,
        _described_group,
        _describe,
    )
)
