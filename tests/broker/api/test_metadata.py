"""Metadata: what clients hear of topics and brokers, by version, and topics that asking makes."""

from __future__ import annotations

import pytest

from moldau.broker.api.authorized_operations import ALL_OF_CLUSTER, ALL_OF_TOPIC
from moldau.broker.decision.context import of_node
from moldau.broker.settings.network import request_timeout_ms
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.acl_operations import NOT_ASKED
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.rights import DESCRIBE_TOPIC
from tests.broker.api.administered import Administered
from tests.broker.api.rights import Rights
from tests.broker.controller.cluster import CLUSTER_ID, topic

ALL_VERSIONS = range(14)
NOWHERE = b"\7" * 16


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=each) for each in names]


def asking(*names: str | None, **more: bool) -> MetadataRequest:
    return MetadataRequest(topics=named(*names), **more)


def told(response: MetadataResponse) -> dict[str | None, int]:
    """Code by topic."""
    return {each.name: each.error_code for each in response.topics}


@pytest.fixture
def broker() -> Administered:
    administered = Administered(1, auto__create__topics__enable="false")
    made = administered.cluster.create(topic("orders", 2), topic("__consumer_offsets", 1))
    assert [each.error_code for each in made] == [0, 0]
    return administered


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_version_tells_brokers_topics_and_leaders(broker: Administered, version: int) -> None:
    request = asking("orders", "orders", "nope", "b ad", "")
    response = broker.ask(request, MetadataResponse, version)
    (node,) = response.brokers
    assert (node.node_id, node.host, node.port) == (1, "here", 9092)
    assert told(response) == {"orders": 0, "nope": 3, "b ad": 17, "": 17}
    (orders,) = [each for each in response.topics if each.name == "orders"]
    assert [each.partition_index for each in orders.partitions] == [0, 1]
    assert [each.leader_id for each in orders.partitions] == [1, 1]
    assert [each.replica_nodes for each in orders.partitions] == [[1], [1]]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
    known = broker.cluster.image.topics.by_name("orders")
    assert known is not None
    assert orders.topic_id == (known.topic_id if version >= 10 else ZERO_UUID)


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_an_empty_list_means_all_topics_only_in_version_0(
    broker: Administered, version: int
) -> None:
    response = broker.ask(MetadataRequest(topics=[]), MetadataResponse, version)
    everything = {"orders": 0, "__consumer_offsets": 0}
    assert told(response) == (everything if version == 0 else {})
    assert len(response.brokers) == 1
    if version:
        response = broker.ask(MetadataRequest(topics=None), MetadataResponse, version)
        assert told(response) == everything
        internal = {each.name: each.is_internal for each in response.topics}
        assert internal == {"orders": False, "__consumer_offsets": True}


def test_a_missing_internal_topic_is_told_as_internal(broker: Administered) -> None:
    request = asking("__transaction_state", "__share_group_state", "__cluster_metadata")
    response = broker.ask(request, MetadataResponse)
    internal = {each.name: (each.error_code, each.is_internal) for each in response.topics}
    assert internal == {
        "__transaction_state": (3, True),
        "__share_group_state": (3, True),
        "__cluster_metadata": (3, False),
    }


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id_and_then_names_do_not_count(
    broker: Administered, version: int
) -> None:
    known = broker.cluster.image.topics.by_name("orders")
    assert known is not None
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(topic_id=known.topic_id, name=None),
            MetadataRequestTopic(topic_id=known.topic_id, name="other"),
            MetadataRequestTopic(topic_id=NOWHERE, name=None),
            *named("nope"),
        ],
        include_topic_authorized_operations=True,
    )
    response = broker.ask(request, MetadataResponse, version)
    assert [(each.name, each.topic_id, each.error_code) for each in response.topics] == [
        (None, NOWHERE, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", known.topic_id, ErrorCode.NONE),
    ]
    operations = [each.topic_authorized_operations for each in response.topics]
    assert operations == [NOT_ASKED, ALL_OF_TOPIC]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "asked",
    [
        MetadataRequestTopic(name=None),
        MetadataRequestTopic(name="orders", topic_id=NOWHERE),
        MetadataRequestTopic(name=None, topic_id=NOWHERE),
    ],
)
def test_versions_10_and_11_have_ids_that_must_not_be_used(
    broker: Administered, version: int, asked: MetadataRequestTopic
) -> None:
    request = MetadataRequest(topics=[asked, *named("orders")])
    response = broker.ask(request, MetadataResponse, version)
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert [each.name for each in response.topics] == [asked.name or "", "orders"]
    assert (response.brokers, response.controller_id, response.cluster_id) == ([], -1, None)


def test_neither_name_nor_id_is_refused_as_a_whole(broker: Administered) -> None:
    response = broker.ask(asking("orders", None), MetadataResponse, 13)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert told(response) == {"orders": 42, "": 42}


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_told_to_those_who_ask(broker: Administered, version: int) -> None:
    request = asking("orders", "nope", include_topic_authorized_operations=True)
    request.include_cluster_authorized_operations = version <= 10
    response = broker.ask(request, MetadataResponse, version)
    assert {each.topic_authorized_operations for each in response.topics} == {ALL_OF_TOPIC}
    assert response.cluster_authorized_operations == (
        ALL_OF_CLUSTER if version <= 10 else NOT_ASKED
    )
    response = broker.ask(asking("orders"), MetadataResponse, version)
    assert response.topics[0].topic_authorized_operations == NOT_ASKED
    assert response.cluster_authorized_operations == NOT_ASKED


def test_the_bits_are_those_that_kafka_tells_where_nobody_is_restricted() -> None:
    assert (ALL_OF_TOPIC, ALL_OF_CLUSTER) == (3576, 8096)


# Listeners, and brokers that are not there.


def spread() -> Administered:
    """Brokers 1, 2 and 3; 2 has another port, 3 has no listener INSIDE. Each topic on all."""
    administered = Administered(1, 2, 3)
    cluster = administered.cluster
    made = cluster.create(*(topic(f"by{first}", placed=_led_by(first)) for first in (1, 2, 3)))
    assert [each.error_code for each in made] == [0, 0, 0]
    return administered


def _led_by(first: int) -> dict[int, list[int]]:
    return {0: [first, *(each for each in (1, 2, 3) if each != first)]}


def _partition(response: MetadataResponse, name: str) -> tuple[int, int, list[int], list[int]]:
    (found,) = [each for each in response.topics if each.name == name]
    (one,) = found.partitions
    return one.error_code, one.leader_id, one.replica_nodes, one.offline_replicas


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, 5), (5, 5), (6, 72), (13, 72)],
)
def test_a_leader_without_the_listener_is_no_leader_for_its_clients(
    version: int, code: int
) -> None:
    response = spread().ask(MetadataRequest(topics=None), MetadataResponse, version, via="INSIDE")
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (1, "inside", 9094)
    ]
    offline = [2, 3] if version >= 5 else []
    assert _partition(response, "by1") == (0, 1, [1, 2, 3], offline)
    assert _partition(response, "by2") == (code, -1, [2, 1, 3], offline)


def test_version_0_leaves_out_replicas_that_nobody_reaches_and_says_so() -> None:
    response = spread().ask(MetadataRequest(topics=[]), MetadataResponse, 0, via="INSIDE")
    assert _partition(response, "by1")[:3] == (ErrorCode.REPLICA_NOT_AVAILABLE, 1, [1])
    assert _partition(response, "by2")[:3] == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])


def _fence(administered: Administered, broker_id: int) -> None:
    administered.channel.submit(
        BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=administered.cluster.epochs[broker_id],
            current_metadata_offset=1,
            want_fence=True,
            want_shut_down=False,
        ),
        of_node(broker_id, 1),
        lambda response: None,
    )


def test_a_fenced_broker_is_not_told_and_its_replicas_are_offline() -> None:
    administered = spread()
    _fence(administered, 2)
    response = administered.ask(MetadataRequest(topics=None), MetadataResponse)
    assert [each.node_id for each in response.brokers] == [1, 3]
    assert _partition(response, "by2") == (0, 1, [2, 1, 3], [2])
    (isr,) = {tuple(each.partitions[0].isr_nodes) for each in response.topics if each.name == "by1"}
    assert isr == (1, 3)


def test_without_any_leader_the_partition_says_so_and_keeps_its_epoch() -> None:
    administered = Administered(1)
    administered.cluster.create(topic("orders"))
    _fence(administered, 1)
    response = administered.ask(asking("orders"), MetadataResponse)
    (one,) = response.topics[0].partitions
    assert (one.error_code, one.leader_id, one.leader_epoch) == (5, -1, 1)
    assert response.brokers == []
    assert response.controller_id == -1


def test_the_controller_that_clients_hear_of_is_the_broker_that_they_ask() -> None:
    administered = spread()
    assert administered.ask(asking(), MetadataResponse).controller_id == 1
    _fence(administered, 1)
    assert administered.ask(asking(), MetadataResponse).controller_id == 2


# Topics that are made by asking.


def test_a_missing_topic_is_created_and_found_by_who_asks_again() -> None:
    administered = Administered(num__partitions="3")
    assert told(administered.ask(asking("new"), MetadataResponse)) == {"new": 3}
    (found,) = administered.ask(asking("new"), MetadataResponse).topics
    assert (found.error_code, len(found.partitions)) == (0, 3)


@pytest.mark.parametrize(
    ("version", "allows", "enabled", "creates"),
    [
        (0, True, "true", True),
        (3, True, "true", True),
        (4, True, "true", True),
        (13, False, "true", False),
        (13, True, "false", False),
        (0, True, "false", False),
    ],
)
def test_creation_needs_the_brokers_leave_and_the_clients(
    version: int, allows: bool, enabled: str, creates: bool
) -> None:
    administered = Administered(auto__create__topics__enable=enabled)
    request = asking("new")
    request.allow_auto_topic_creation = allows
    administered.send(request, version)
    assert (administered.cluster.image.topics.by_name("new") is not None) == creates


@pytest.mark.parametrize(
    ("allows", "enabled", "code"),
    [
        (True, "true", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (True, "false", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (False, "true", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_right_to_create_counts_where_the_topic_would_be_created(
    allows: bool, enabled: str, code: ErrorCode
) -> None:
    administered = Administered(1, auto__create__topics__enable=enabled)
    administered.node.authorizer = Rights((DESCRIBE_TOPIC, "new"))
    request = asking("new")
    request.allow_auto_topic_creation = allows
    assert told(administered.ask(request, MetadataResponse)) == {"new": code}


def test_a_name_that_cannot_be_is_not_asked_for() -> None:
    administered = Administered()
    assert told(administered.ask(asking("b ad"), MetadataResponse)) == {"b ad": 17}
    assert administered.channel.asked == []


def test_a_topic_is_created_for_the_client_that_asks_for_it() -> None:
    administered = Administered()
    asked = administered.send(asking("new"), 4, via="INSIDE")
    (context,) = administered.channel.contexts
    last = CreateTopicsRequest.spec.versions.last
    assert context._replace(deadline_ms=None) == asked.context._replace(version=last)
    assert (context.listener, context.client_id) == ("INSIDE", "test")
    timeout_ms = administered.node.settings[request_timeout_ms]
    assert context.deadline_ms == administered.cluster.now_ms + timeout_ms


def test_who_asks_for_all_or_by_id_creates_nothing() -> None:
    administered = Administered()
    administered.send(MetadataRequest(topics=None))
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=NOWHERE, name=None)])
    administered.send(by_id)
    assert administered.channel.asked == []


def test_internal_topics_are_made_as_their_coordinators_need_them() -> None:
    administered = Administered(offsets__topic__num__partitions="5")
    administered.send(asking("__consumer_offsets", "plain"))
    image = administered.cluster.image
    offsets, plain = (image.topics.by_name(each) for each in ("__consumer_offsets", "plain"))
    assert offsets is not None
    assert plain is not None
    assert (len(offsets.partitions), len(plain.partitions)) == (5, 1)
    assert image.configs.of_topic("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert image.configs.of_topic("plain") == {}


def test_while_the_controller_is_at_it_nobody_asks_again() -> None:
    administered = Administered()
    administered.channel.is_slow = True
    administered.send(asking("a", "b"))
    administered.send(asking("b", "c"))
    assert [_names(each) for each in administered.channel.asked] == [["a", "b"], ["c"]]
    administered.channel.answer_late()
    assert administered.node.topics_in_creation == set()
    assert administered.lines == []


def _names(request: object) -> list[str]:
    assert isinstance(request, CreateTopicsRequest)
    return [each.name for each in request.topics]


def test_what_cannot_be_created_is_in_the_log_and_may_be_asked_for_again() -> None:
    administered = Administered(default__replication__factor="2")
    administered.send(asking("new"))
    assert "new" in administered.lines[-1]
    administered.channel.refusals.append(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    administered.send(asking("new"))
    assert len(administered.lines) == 2
    assert len(administered.channel.asked) == 2
    assert administered.node.topics_in_creation == set()


def test_what_the_brokers_file_does_not_say_is_left_to_the_controller() -> None:
    """With the broker's defaults in the request, those of the controller's file never counted."""
    cases = (
        (Administered(1), (-1, -1)),
        (Administered(1, num__partitions="3"), (3, -1)),
        (Administered(1, default__replication__factor="2"), (-1, 2)),
    )
    for administered, asked in cases:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        administered.ask(request, MetadataResponse, 12)
        (made,) = administered.channel.asked
        assert isinstance(made, CreateTopicsRequest)
        (topic_,) = made.topics
        assert (topic_.num_partitions, topic_.replication_factor) == asked
