"""CreateTopics, DeleteTopics and CreatePartitions, forwarded to the controller.

The controller answers when its decision is committed. If the controller is on this node, this
broker's metadata includes the change then, so a client can use a new topic here at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.settings import creation
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_DELETION_DISABLED_SINCE: Final = 3


def refuse_topics(
    request: CreateTopicsRequest, version: int, error: KafkaError
) -> CreateTopicsResponse:
    """Return the response for the case that no topic was created."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=error.code, error_message=error.reason)
            for name in dict.fromkeys(each.name for each in request.topics)
        ],
    )


def serve_delete_topics(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller, unless the settings forbid the deletion of topics."""
    message = cast(DeleteTopicsRequest, request.decode())
    if not node.settings[creation.delete_topic_enable]:
        version = request.arrival.version
        request.answer(refuse_deletion(message, version, deletion_is_disabled(version)))
        return
    forward(node, request, message, refuse_deletion)


def deletion_is_disabled(version: int) -> KafkaError:
    """Return the error of a forbidden deletion. Old clients do not know TOPIC_DELETION_DISABLED."""
    knows_code = version >= _DELETION_DISABLED_SINCE
    return KafkaError(
        ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST,
        f"{creation.delete_topic_enable.name} is false",
    )


def refuse_deletion(
    request: DeleteTopicsRequest, version: int, error: KafkaError
) -> DeleteTopicsResponse:
    """Return the response for the case that no topic was deleted."""
    named = [(name, ZERO_UUID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.code, error_message=error.reason
            )
            for name, topic_id in dict.fromkeys(
                [(each.name, each.topic_id) for each in request.topics] or named
            )
        ],
    )


def refuse_partitions(
    request: CreatePartitionsRequest, version: int, error: KafkaError
) -> CreatePartitionsResponse:
    """Return the response for the case that no partition was added."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name, error_code=error.code, error_message=error.reason
            )
            for name in dict.fromkeys(each.name for each in request.topics)
        ],
    )
