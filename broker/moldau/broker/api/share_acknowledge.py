"""ShareAcknowledge: says what became of acquired records, without reading more (KIP-932).

With the final epoch it ends the session, and releases what the member still holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.gate import is_allowed
from moldau.broker.api.refusal import Lead, lead_of, message_of
from moldau.broker.api.share_acknowledging import (
    RequestAcknowledgements,
    acknowledgements_of,
    serves_share_groups,
    session_key,
)
from moldau.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.share.sessions import SessionKey

_LED_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def serve(node: Node, request: ApiRequest) -> None:
    """Handle a ShareAcknowledge request. It is answered when all is stored."""
    message = cast(ShareAcknowledgeRequest, request.decode())
    if not serves_share_groups(node):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if message.group_id is not None and not is_allowed(
        node, request, AclResource.GROUP, message.group_id
    ):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    key = session_key(message.group_id, message.member_id)
    epoch = message.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share fetch begins a session")
    if epoch == FINAL_EPOCH:
        node.shares.sessions.existing(key)
    else:
        node.shares.sessions.next(key, epoch, (), ())

    def answer() -> None:
        request.answer(_response(node, request, key, acknowledging))
        if epoch == FINAL_EPOCH:
            session = node.shares.sessions.end(key)
            if session is not None:
                node.shares.release(key, session.places)

    acknowledging = RequestAcknowledgements(node, request, key, message, answer)
    acknowledging.begin(acknowledgements_of(message.topics))


def _response(
    node: Node, request: ApiRequest, key: SessionKey, acknowledging: RequestAcknowledgements
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, list[PartitionData]] = {}
    leads: dict[int, Lead] = {}
    for (topic_id, index), error in acknowledging.results.items():
        lead = Lead()
        if error is not None and error.code in _LED_ELSEWHERE:
            lead = lead_of(node, "", topic_id, index, request.connection.listener)
            if lead.is_reachable:
                leads[lead.leader_id] = lead
        row = PartitionData(
            partition_index=index,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else message_of(error),
            current_leader=LeaderIdAndEpoch(
                leader_id=lead.leader_id, leader_epoch=lead.leader_epoch
            ),
        )
        topics.setdefault(topic_id, []).append(row)
    settings = node.coordinator_node.share_settings(key.group_id)
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=settings.lock_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=lead.leader_id, host=lead.host, port=lead.port, rack=lead.rack)
            for lead in leads.values()
        ],
    )
