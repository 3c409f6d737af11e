"""Forward AlterPartitionReassignments and ListPartitionReassignments to the controller (KIP-455).

`controller.reassignments` decides there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve_alter(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(AlterPartitionReassignmentsRequest, request.decode())
    forward(node, request, message, _alter_refusal, message.timeout_ms)


def serve_list(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(ListPartitionReassignmentsRequest, request.decode())
    forward(node, request, message, _list_refusal, message.timeout_ms)


def _alter_refusal(error: KafkaError) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason, responses=[]
    )


def _list_refusal(error: KafkaError) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=error.code, error_message=error.reason, topics=[]
    )
