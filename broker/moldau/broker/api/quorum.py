"""DescribeQuorum: the leader of the metadata log, its voters, and the progress of each.

Only the leader knows this, so the request is forwarded to the controller
(`controller.quorum_description`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.settings import network
from moldau.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(DescribeQuorumRequest, request.decode())
    forward(node, request, message, refusal, node.settings[network.request_timeout_ms])


def refusal(error: KafkaError) -> DescribeQuorumResponse:
    """Return the response for the case that the controller did not answer."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.reason, topics=[])
