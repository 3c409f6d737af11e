"""DescribeQuorum: who leads the metadata log, who votes, how far each has come.

Only the leader knows, so the controller answers (`controller.quorum_description`); this passes the
question on.
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
    """Passes it on."""
    message = cast(DescribeQuorumRequest, request.decode())
    forward(node, request, message, refusal, node.settings[network.request_timeout_ms])


def refusal(error: KafkaError) -> DescribeQuorumResponse:
    """Nobody could tell."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.reason, topics=[])
