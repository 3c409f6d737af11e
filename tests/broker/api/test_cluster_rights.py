"""Rights on the cluster, and which requests they allow: the rights are Kafka's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.broker.api.gate import guard_decision
from moldau.broker.api.rights.guard import GuardedMessage
from moldau.broker.decision.authorizer import CLUSTER_NAME
from moldau.broker.decision.context import RequestContext
from moldau.broker.server.controller_service import ControllerService
from moldau.errors.codes import ErrorCode
from moldau.logging import Loggers
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from moldau.protocol.rights import Right
from tests.broker.api.administered import Asked
from tests.broker.api.rights import Rights, guarded
from tests.broker.api.serving import Serving, serving

ABORT = WriteTxnMarkersRequest(
    markers=[
        WritableTxnMarker(
            producer_id=1,
            producer_epoch=1,
            transaction_result=False,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name="nope", partition_indexes=[0])],
        )
    ]
)


def on_cluster(*operations: AclOperation) -> tuple[tuple[Right, str], ...]:
    return tuple((Right(AclResource.CLUSTER, each), CLUSTER_NAME) for each in operations)


@serving()
async def test_markers_take_the_right_of_a_broker_or_of_an_operator(at: Serving) -> None:
    found = []
    for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER, AclOperation.DESCRIBE):
        at.node.authorizer = Rights(*on_cluster(operation))
        answer = await at.ask(ABORT, WriteTxnMarkersResponse, 1)
        found.append(answer.markers[0].topics[0].partitions[0].error_code)
    assert found == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]


@pytest.mark.parametrize(
    ("operation", "is_allowed"), [(AclOperation.DELETE, True), (AclOperation.ALTER, False)]
)
def test_delete_on_the_cluster_deletes_every_topic(
    operation: AclOperation, is_allowed: bool
) -> None:
    at, authorizer = guarded(*on_cluster(operation))
    request = DeleteTopicsRequest(topic_names=["orders"], topics=[], timeout_ms=1)
    context = RequestContext("", "/127.0.0.1", 5, "SASL")
    found = guard_decision(request, authorizer, context, at.cluster.image)
    assert isinstance(found, GuardedMessage) is not is_allowed


def test_controllers_are_described_to_a_client_that_may_alter_the_cluster() -> None:
    lines: list[str] = []
    log = Loggers(cast(Any, SimpleNamespace(wall_ms=lambda: 0)), lines.append).get("t")
    nothing = cast(Any, None)
    controller = SimpleNamespace(authorizer=Rights(*on_cluster(AclOperation.DESCRIBE)))
    controller.now_ms, controller.raft = (lambda: 0), None
    service = ControllerService(cast(Any, controller), {}, nothing, nothing, log)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    asked = Asked(request, 1, "CONTROLLER")
    service.serve(cast(Any, asked))
    (answer,) = asked.answers
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.brokers == []
