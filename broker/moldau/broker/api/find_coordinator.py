"""FindCoordinator: which broker keeps a group, a transaction or a share partition.

No broker has coordinators yet, so nobody is available for any key. It is served all the same:
librdkafka takes a broker without FindCoordinator for one from before Kafka 0.8.2, and then sends
uncompressed what it was told to compress with lz4, without a word. An error that clients do not
retry would be heard by librdkafka's consumers that only have partitions assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

# Groups, transactions, share partitions.
_KEY_TYPES: Final = range(3)
_NOBODY: Final = -1


def serve(node: Node, request: ApiRequest) -> None:
    """The same answer for each key, in the form of either generation of versions."""
    asked = cast(FindCoordinatorRequest, request.decode())
    code, message = ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker has no coordinators"
    if asked.key_type not in _KEY_TYPES:
        code, message = ErrorCode.INVALID_REQUEST, f"no such key type: {asked.key_type}"
    response = FindCoordinatorResponse(throttle_time_ms=0)
    if request.arrival.version < 4:
        response.error_code, response.error_message = code, message
        response.node_id = response.port = _NOBODY
    else:
        response.coordinators = [
            Coordinator(
                key=key,
                node_id=_NOBODY,
                host="",
                port=_NOBODY,
                error_code=code,
                error_message=message,
            )
            for key in asked.coordinator_keys
        ]
    request.answer(response)
