"""CreateTopics, DeleteTopics and CreatePartitions, forwarded to the controller.

The controller answers when its decision is committed. If the controller is on this node, this
broker's metadata includes the change then, so a client can use a new topic here at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.api.refused import refused_response
from moldau.broker.settings import creation
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

_DELETION_DISABLED_SINCE: Final = 3


def serve_delete_topics(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller, unless the settings forbid the deletion of topics."""
    message = cast(DeleteTopicsRequest, request.decode())
    if not node.settings[creation.delete_topic_enable]:
        version = request.arrival.version
        request.answer(refused_response(message, version, deletion_is_disabled(version)))
        return
    forward(node, request, message, refused_response)


def deletion_is_disabled(version: int) -> KafkaError:
    """Return the error of a forbidden deletion. Old clients do not know TOPIC_DELETION_DISABLED."""
    knows_code = version >= _DELETION_DISABLED_SINCE
    return KafkaError(
        ErrorCode.TOPIC_DELETION_DISABLED if knows_code else ErrorCode.INVALID_REQUEST,
        f"{creation.delete_topic_enable.name} is false",
    )
