"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and ConsumerGroupHeartbeat: members of groups.

Checks that do not need the group come first, in Kafka's order. Then the group's shard decides, and
its answer becomes a response of the request's version.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import is_allowed
from moldau.broker.api.refused import error_response
from moldau.broker.controller.levels import GROUP_VERSION
from moldau.broker.coordinator.group.classic.validation import check_join, check_sync
from moldau.broker.coordinator.group.consumer.validation import check_heartbeat
from moldau.broker.settings.coordinator import group_coordinator_rebalance_protocols
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Response
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.parked import OnAnswer
    from moldau.config import Settings

_NULL_PROTOCOL_SINCE: Final = 7
_MEMBERS_SINCE: Final = 3


def serve_join_group(node: Node, request: ApiRequest) -> None:
    message = cast(JoinGroupRequest, request.decode())
    version = request.arrival.version

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = _join_refusal(message, response)
        assert isinstance(response, JoinGroupResponse)
        if version < _NULL_PROTOCOL_SINCE:
            response.protocol_name = response.protocol_name or ""
        elif response.protocol_name == "":
            response.protocol_name = None
        request.answer(response)

    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if not message.group_id:
        answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
        return
    refused = check_join(message, node.settings)
    if refused is not None:
        answer(refused)
        return
    context = request.context
    node.groups.submit(
        message.group_id,
        lambda groups, now_ms: groups.on_request(message, context, answer, now_ms),
        answer,
        "JoinGroup",
    )


def _join_refusal(message: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code,
        protocol_name=None,
        leader="",
        member_id=message.member_id,
        members=[],
    )


def serve_sync_group(node: Node, request: ApiRequest) -> None:
    message = cast(SyncGroupRequest, request.decode())
    answer = _answering(request)
    refused = check_sync(message, request.arrival.version)
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    elif refused is not None:
        answer(refused)
    elif not message.group_id:
        answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
    else:
        node.groups.submit(
            message.group_id,
            lambda groups, now_ms: groups.on_request(message, request.context, answer, now_ms),
            answer,
            "SyncGroup",
        )


def serve_heartbeat(node: Node, request: ApiRequest) -> None:
    message = cast(HeartbeatRequest, request.decode())

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            # The broker does not know yet whether the member exists. Without an error the member
            # continues.
            code = response.code
            is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            response = HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
        request.answer(response)

    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if not message.group_id:
        answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
        return
    node.groups.submit(
        message.group_id,
        lambda groups, now_ms: groups.on_heartbeat(message, answer, now_ms),
        answer,
        "Heartbeat",
    )


def serve_leave_group(node: Node, request: ApiRequest) -> None:
    """Remove members. Groups know only the form of version 3, which names several members."""
    message = cast(LeaveGroupRequest, request.decode())
    version = request.arrival.version
    if version < _MEMBERS_SINCE:
        message.members = [MemberIdentity(member_id=message.member_id)]

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            response = _leave_refusal(message, response)
        assert isinstance(response, LeaveGroupResponse)
        if version < _MEMBERS_SINCE:
            code = response.error_code
            if not code and response.members:
                code = response.members[0].error_code
            response = LeaveGroupResponse(error_code=code)
        request.answer(response)

    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    if not message.group_id:
        answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
        return
    context = request.context
    node.groups.submit(
        message.group_id,
        lambda groups, now_ms: groups.on_request(message, context, answer, now_ms),
        answer,
        "LeaveGroup",
    )


def _leave_refusal(message: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    """Return the response to a failed request. A missing group is an error of each member."""
    if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for each in message.members
        ],
    )


def serve_consumer_group_heartbeat(node: Node, request: ApiRequest) -> None:
    message = cast(ConsumerGroupHeartbeatRequest, request.decode())
    answer = _answering(request)
    if not serves_consumer_groups(node):
        answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        return
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        answer(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    check_heartbeat(message, request.arrival.version, node.settings)
    context = request.context
    node.groups.submit(
        message.group_id,
        lambda groups, now_ms: groups.on_request(message, context, answer, now_ms),
        answer,
        "ConsumerGroupHeartbeat",
    )


def serves_consumer_groups(node: Node) -> bool:
    """Whether the feature of KIP-848 is finalized in the cluster and enabled on this broker."""
    is_agreed = node.image.features.levels.get(GROUP_VERSION, 0) >= 1
    return is_agreed and _is_switched_on(node.settings)


@lru_cache(1)
def _is_switched_on(settings: Settings) -> bool:
    """Whether the setting enables the consumer protocol. Cached until the settings change, because
    every heartbeat calls it."""
    return "consumer" in settings[group_coordinator_rebalance_protocols]


def _answering(request: ApiRequest) -> OnAnswer:
    return partial(_answer, request)


def _answer(request: ApiRequest, response: Response | KafkaError) -> None:
    if isinstance(response, KafkaError):
        arrival = request.arrival
        refusal = error_response(arrival.key, arrival.version, response)
        assert refusal is not None, "each of these has a place for an error"
        response = refusal
    request.answer(response)
