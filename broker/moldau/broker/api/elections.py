"""ElectLeaders without an answer of the controller (`controller.elections` decides)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from moldau.errors.codes import KafkaError


def refusal(request: ElectLeadersRequest, version: int, error: KafkaError) -> ElectLeadersResponse:
    """Return the response for the case that no leader was elected. Version 0 can report the error
    only at each partition."""
    response = ElectLeadersResponse(
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
