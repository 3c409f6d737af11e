"""DescribeCluster: the brokers, the controller, and the cluster's id (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER
from moldau.broker.api.listener_view import NOBODY, ListenerView
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

BROKERS: Final = 1
CONTROLLERS: Final = 2


def serve(node: Node, request: ApiRequest) -> None:
    """Answer from the image, at once."""
    message = cast(DescribeClusterRequest, request.decode())
    request.answer(answer(ListenerView.of(node, request), message))


def answer(view: ListenerView, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """The response with the live brokers, on request with fenced ones too. A client that asks for
    controllers (KIP-919) must use a controller's listener."""
    if request.endpoint_type != BROKERS:
        return refusal(_wrong_endpoint(request.endpoint_type))
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=view.cluster_id,
        controller_id=view.controller_id(),
        brokers=[
            DescribeClusterBroker(
                broker_id=at.broker_id,
                host=at.host,
                port=at.port,
                rack=at.rack,
                is_fenced=at.is_fenced,
            )
            for at in view.addresses(with_fenced=request.include_fenced_brokers)
        ],
        cluster_authorized_operations=(
            ALL_OF_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def refusal(error: KafkaError) -> DescribeClusterResponse:
    """A response with nothing but the error."""
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=error.code,
        error_message=error.reason,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=NOBODY,
        brokers=[],
    )


def _wrong_endpoint(endpoint_type: int) -> KafkaError:
    if endpoint_type == CONTROLLERS:
        return KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's listener, no controller's"
        )
    return KafkaError(
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {endpoint_type}"
    )
