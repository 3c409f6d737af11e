"""AddRaftVoter and RemoveRaftVoter, forwarded to the controller (KIP-853).

`raft.voter_changes` decides there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.broker.settings import network
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from moldau.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve_add(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(AddRaftVoterRequest, request.decode())
    forward(node, request, message, _not_added, message.timeout_ms)


def serve_remove(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(RemoveRaftVoterRequest, request.decode())
    forward(node, request, message, _not_removed, node.settings[network.request_timeout_ms])


def _not_added(error: KafkaError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason
    )


def _not_removed(error: KafkaError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason
    )
