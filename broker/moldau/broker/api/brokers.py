"""UnregisterBroker, forwarded to the controller, which removes a broker that is gone for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.settings import network
from moldau.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve_unregister(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(UnregisterBrokerRequest, request.decode())
    forward(node, request, message, _refusal, node.settings[network.request_timeout_ms])


def _refusal(error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason
    )
