"""ShareGroupHeartbeat and ShareGroupDescribe: members of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.authorized_operations import ALL_OF_GROUP
from moldau.broker.api.error_response import error_response
from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.share_acknowledging import MEMBER_ID_LENGTH_MAX, serves_share_groups
from moldau.broker.api.together import Together
from moldau.broker.coordinator.group.groups import share_group
from moldau.broker.coordinator.group.share.heartbeat import check_heartbeat
from moldau.broker.coordinator.outcome import answered
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Response
from moldau.protocol.messages import share_group_describe as describing
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.outcome import Outcome, Ticket

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


def serve_describe(node: Node, request: ApiRequest) -> None:
    message = cast(describing.ShareGroupDescribeRequest, request.decode())

    def finish(found: Sequence[describing.DescribedGroup]) -> None:
        if message.include_authorized_operations:
            for each in found:
                if each.error_code == ErrorCode.NONE:
                    each.authorized_operations = ALL_OF_GROUP
        request.answer(describing.ShareGroupDescribeResponse(groups=list(found)))

    together = Together[describing.DescribedGroup](len(message.group_ids), finish)
    for number, group_id in enumerate(message.group_ids):

        def answer(
            response: Response | KafkaError, number: int = number, group_id: str = group_id
        ) -> None:
            if isinstance(response, KafkaError):
                together.put(number, _not_described(group_id, response))
            else:
                (found,) = cast(describing.ShareGroupDescribeResponse, response).groups
                together.put(number, found)

        if not serves_share_groups(node):
            answer(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
        elif not group_id:
            answer(KafkaError(ErrorCode.INVALID_GROUP_ID))
        else:
            node.groups.submit(
                group_id, _describing(group_id, answer), answer, "ShareGroupDescribe"
            )


def _describing(group_id: str, ticket: Ticket) -> Callable[[Groups, int], Outcome]:
    def decide(groups: Groups, now_ms: int) -> Outcome:
        described = share_group(groups, group_id).describe()
        return answered(ticket, describing.ShareGroupDescribeResponse(groups=[described]))

    return decide


def _not_described(group_id: str, error: KafkaError) -> describing.DescribedGroup:
    is_unknown = error.code is ErrorCode.GROUP_ID_NOT_FOUND
    return describing.DescribedGroup(
        error_code=error.code,
        error_message=error.reason if is_unknown else None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
