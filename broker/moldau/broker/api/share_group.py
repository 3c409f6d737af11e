"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.group_describing import DescribeApi, handler
from moldau.broker.api.refused import error_response
from moldau.broker.api.share_acknowledging import MEMBER_ID_LENGTH_MAX, serves_share_groups
from moldau.broker.coordinator.group.groups import share_group
from moldau.broker.coordinator.group.share.heartbeat import check_heartbeat
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Response
from moldau.protocol.messages import share_group_describe as describing
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_LONGEST: Final = MEMBER_ID_LENGTH_MAX


def serve_heartbeat(node: Node, request: ApiRequest) -> None:
    """Let the group decide. Checks that do not need the group come first, in Kafka's order."""
    message = cast(ShareGroupHeartbeatRequest, request.decode())
    if not serves_share_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not is_allowed(node, request, AclResource.GROUP, message.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not message.member_id or len(message.member_id) > _LONGEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId must have 1 to 36 characters")
    names = message.subscribed_topic_names or ()
    if len(set(allowed(node, request, AclResource.TOPIC, names))) < len(set(names)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_heartbeat(message)
    context = request.context

    def answer(response: Response | KafkaError) -> None:
        if isinstance(response, KafkaError):
            arrival = request.arrival
            refused = error_response(arrival.key, arrival.version, response)
            assert refused is not None
            response = refused
        request.answer(response)

    node.groups.submit(
        message.group_id,
        lambda groups, now_ms: groups.on_request(message, context, answer, now_ms),
        answer,
        "ShareGroupHeartbeat",
    )


serve_describe: Final = handler(
    DescribeApi(
        "ShareGroupDescribe",
        serves_share_groups,
        describing.ShareGroupDescribeResponse,
        describing.DescribedGroup,
        lambda groups, group_id, message: share_group(groups, group_id).describe(),
    )
)
