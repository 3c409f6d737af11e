"""UpdateFeatures, forwarded to the controller (`controller.feature_updates`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(UpdateFeaturesRequest, request.decode())
    forward(node, request, message, refusal, message.timeout_ms)


def refusal(error: KafkaError) -> UpdateFeaturesResponse:
    """Return the response for the case that no feature was changed."""
    return UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason
    )
