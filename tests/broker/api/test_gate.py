"""The gate: each API's row is Kafka's, and a client without the row's right is refused by it."""

from __future__ import annotations

import pytest

from moldau.broker.api.gate import allowed, is_allowed
from moldau.broker.api.handlers import APIS
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.api.row import BOTH
from moldau.broker.api.service import BrokerService, served_versions
from moldau.broker.decision.authorizer import ALLOW_ALL
from moldau.broker.decision.context import of_node
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages import OWN, api, request_class
from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.rights import Right
from tests.broker.api.administered import Administered, Asked
from tests.broker.api.rights import guarded
from tests.broker.controller.cluster import topic

RESTORE_TOPIC, *_ = OWN
FORWARDED = {
    RESTORE_TOPIC,
    19,
    20,
    30,
    31,
    33,
    37,
    38,
    39,
    40,
    43,
    44,
    45,
    46,
    49,
    51,
    55,
    57,
    64,
    80,
    81,
    94,
}
"""Those of our APIs that Kafka's brokers forward to the controller, and our own one."""


@pytest.mark.parametrize("key", APIS)
def test_a_row_offers_an_api_where_kafka_does(key: int) -> None:
    row, spec = APIS[key], request_class(key).spec
    assert row.listeners <= set(spec.listeners), api(key).name
    if "controller" in spec.listeners:
        assert "controller" in row.listeners, f"controllers lack {api(key).name}"
    assert row.is_forwarded == (key in FORWARDED)
    assert not row.is_forwarded or row.listeners == BOTH


def test_each_api_has_its_rights() -> None:
    assert set(RIGHTS) == set(APIS)


def test_only_what_must_be_open_takes_no_right() -> None:
    assert {api(key).name for key, row in RIGHTS.items() if row.right is None} == {
        "ApiVersions",
        "DescribeCluster",
        "ExpireDelegationToken",  # by the token's owner and renewers
        "GetTelemetrySubscriptions",  # every client may push, as to Kafka
        "PushTelemetry",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
    }


REFUSED: list[tuple[Request, type[Response]]] = [
    (DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse),
    (ListConfigResourcesRequest(), ListConfigResourcesResponse),
    (
        AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path="/d", topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0, 2])]
                )
            ]
        ),
        AlterReplicaLogDirsResponse,
    ),
]


@pytest.mark.parametrize(("request_", "answer"), REFUSED)
def test_a_right_on_the_cluster_is_checked_before_the_handler(
    request_: Request, answer: type[Response]
) -> None:
    administered, authorizer = guarded()
    key = type(request_).spec.key
    assert key is not None
    right = RIGHTS[key].right
    for version in served_versions()[key].all():
        response = administered.ask(request_, answer, version)
        if isinstance(response, AlterReplicaLogDirsResponse):
            (topic,) = response.results
            codes = [each.error_code for each in topic.partitions]
            assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
        elif version >= 3 or not isinstance(response, DescribeLogDirsResponse):
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # type: ignore[attr-defined]
        else:
            assert response.results == []
    assert {each for each, _ in authorizer.asked} == {right}


def test_a_client_with_the_right_passes() -> None:
    right = RIGHTS[74].right
    assert right is not None
    administered, authorizer = guarded((right, "kafka-cluster"))
    response = administered.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse)
    assert response.error_code == 0
    assert authorizer.asked == [(right, ("kafka-cluster",))]


def test_handlers_filter_names_by_the_right_of_their_row() -> None:
    describe = Right(AclResource.TOPIC, AclOperation.DESCRIBE)
    administered, authorizer = guarded((describe, "orders"))
    node = administered.node
    sent = Asked(MetadataRequest(topics=None), 9, "PLAINTEXT")
    assert list(allowed(node, sent, AclResource.TOPIC, ["orders", "secret"])) == ["orders"]
    assert is_allowed(node, sent, AclResource.TOPIC, "orders")
    assert not is_allowed(node, sent, AclResource.CLUSTER, "kafka-cluster")
    assert authorizer.asked[-1][0] == Right(AclResource.CLUSTER, AclOperation.DESCRIBE)
    sent.context = of_node(1, 9)
    assert is_allowed(node, sent, AclResource.TOPIC, "secret"), "a node's own requests pass"
    node.authorizer = ALLOW_ALL
    assert list(allowed(node, sent, AclResource.TOPIC, ["secret"])) == ["secret"]


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_of_a_topic_is_no_way_around_the_versions_without_ids(version: int) -> None:
    administered, _ = guarded()
    (made,) = administered.cluster.create(topic("orders", 1))
    asked = MetadataRequestTopic(name=None, topic_id=made.topic_id)
    answer = administered.ask(MetadataRequest(topics=[asked]), MetadataResponse, version)
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]
    assert MetadataResponse.decode(answer.encode(version), version) == answer


def test_the_hot_path_has_no_gate_to_pass() -> None:
    service = BrokerService(Administered().node)
    for key in (0, 1):
        assert service._handlers[key] is APIS[key].serve


def test_a_row_without_the_right_that_a_handler_asks_for_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="GROUP"):
        RIGHTS[34].on(AclResource.GROUP)


def test_handlers_refuse_topics_and_groups_without_the_right() -> None:
    """Before anything is looked up, so that no client learns which of them exist."""
    administered, authorizer = guarded()
    offsets = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="secret", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    (topic,) = administered.ask(offsets, ListOffsetsResponse).topics
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    producers = DescribeProducersRequest(
        topics=[TopicRequest(name="secret", partition_indexes=[0])]
    )
    (described,) = administered.ask(producers, DescribeProducersResponse).topics
    assert described.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    refused = administered.ask(heartbeat, HeartbeatResponse)
    assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    leaving = LeaveGroupRequest(group_id="g", members=[])
    left = administered.ask(leaving, LeaveGroupResponse)
    assert left.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [right for right, _ in authorizer.asked] == [
        Right(AclResource.TOPIC, AclOperation.DESCRIBE),
        Right(AclResource.TOPIC, AclOperation.READ),
        Right(AclResource.GROUP, AclOperation.READ),
        Right(AclResource.GROUP, AclOperation.READ),
    ]
