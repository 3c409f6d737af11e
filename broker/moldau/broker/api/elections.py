"""ElectLeaders, forwarded to the controller (`controller.elections`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from moldau.broker.api.forwarding import forward
from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.errors.codes import KafkaError


def serve(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller."""
    message = cast(ElectLeadersRequest, request.decode())
    version = request.arrival.version
    forward(
        node, request, message, lambda error: refusal(message, version, error), message.timeout_ms
    )


def refusal(request: ElectLeadersRequest, version: int, error: KafkaError) -> ElectLeadersResponse:
    """Return the response for the case that no leader was elected. Version 0 can report the error
    only at each partition."""
    response = ElectLeadersResponse(
        throttle_time_ms=0,
        replica_election_results=[
            ReplicaElectionResult(
                topic=each.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=number, error_code=error.code, error_message=error.reason
                    )
                    for number in each.partitions
                ],
            )
            for each in request.topic_partitions or ()
        ],
    )
    if version >= 1:
        response.error_code = error.code
    return response
