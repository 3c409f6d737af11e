"""DescribeCluster: the brokers, the controller, and the cluster's id (KIP-700).

A broker's listener returns brokers, a controller's listener returns controllers (KIP-919). On a
broker, the "controller" is a broker that forwards requests; on a controller it is the quorum's
leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER
from moldau.broker.api.listener_view import NOBODY, ListenerView
from moldau.deferred import dataclass
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
    from moldau.broker.controller.image import Image

BROKERS: Final = 1
CONTROLLERS: Final = 2
_CONTROLLERS_REGISTER_SINCE: Final = 15
"""The metadata.version 3.7-IV0: before it the log has no addresses of controllers."""


def serve(node: Node, request: ApiRequest) -> None:
    """Answer from the image, at once."""
    message = cast(DescribeClusterRequest, request.decode())
    request.answer(answer(ListenerView.of(node, request), message))


def answer(view: ListenerView, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the live brokers, and the fenced ones if the request includes them. A request for
    controllers (KIP-919) is an error here: it must use a controller's listener."""
    if request.endpoint_type != BROKERS:
        return refusal(_wrong_endpoint(request.endpoint_type, here="broker"))
    return DescribeClusterResponse(
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
    """Return a response that has only the error."""
    return DescribeClusterResponse(
        error_code=error.code,
        error_message=error.reason,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=NOBODY,
        brokers=[],
    )


def _wrong_endpoint(endpoint_type: int, here: str) -> KafkaError:
    if endpoint_type in (BROKERS, CONTROLLERS):
        return KafkaError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, f"this is the listener of a {here}, and of no other"
        )
    return KafkaError(
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {endpoint_type}"
    )


@dataclass(frozen=True, slots=True)
class Controllers:
    """The registered controllers and the quorum's leader, as one controller knows them."""

    image: Image
    cluster_id: str
    leader_id: int
    """The leader of the quorum; NOBODY while there is none."""
    listener: str
    """The name of the listener that the client uses."""


def answer_of_controllers(
    view: Controllers, request: DescribeClusterRequest, version: int
) -> DescribeClusterResponse:
    """Return the registered controllers, each with its address on the client's listener. A leader
    without such an address is not named, because the client could not reach it."""
    if view.image.features.metadata_version < _CONTROLLERS_REGISTER_SINCE:
        reason = "the metadata.version is too low for requests of clients to controllers"
        return refusal(KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason))
    if request.endpoint_type != CONTROLLERS:
        error = _wrong_endpoint(request.endpoint_type, here="controller")
        # version 0 has no endpoint type, and its clients do not know these error codes
        if version == 0:
            error = KafkaError(ErrorCode.INVALID_REQUEST, error.reason)
        return refusal(error)
    found = [
        DescribeClusterBroker(
            broker_id=each.controller_id, host=at.host, port=at.port, rack=None, is_fenced=False
        )
        for each in view.image.brokers.controllers.values()
        for at in each.endpoints
        if at.name == view.listener
    ]
    ids = {each.broker_id for each in found}
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=CONTROLLERS,
        cluster_id=view.cluster_id,
        controller_id=view.leader_id if view.leader_id in ids else NOBODY,
        brokers=sorted(found, key=lambda each: each.broker_id),
        cluster_authorized_operations=(
            ALL_OF_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
