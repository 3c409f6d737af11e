"""Creating, deleting and growing topics through a broker, and what is said when nobody decides."""

from __future__ import annotations

import pytest

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

SOON_MS = 1000
ANY_ID = b"\7" * 16


@pytest.fixture
def broker() -> Administered:
    administered = Administered(1)
    administered.cluster.create(topic("orders"), topic("users"))
    return administered


def creating(*names: str, timeout_ms: int = SOON_MS) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic(each) for each in names], timeout_ms=timeout_ms)


def deleting(*names: str | bytes, timeout_ms: int = SOON_MS) -> DeleteTopicsRequest:
    """As version 6 has it: by name or by id."""
    return DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=each, topic_id=ZERO_UUID)
            if isinstance(each, str)
            else DeleteTopicState(name=None, topic_id=each)
            for each in names
        ],
        timeout_ms=timeout_ms,
    )


def growing(*wanted: tuple[str, int], timeout_ms: int = SOON_MS) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in wanted
        ],
        timeout_ms=timeout_ms,
        validate_only=False,
    )


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_in_every_version(broker: Administered, version: int) -> None:
    response = broker.ask(creating("new", "orders"), CreateTopicsResponse, version)
    assert {each.name: each.error_code for each in response.topics} == {"new": 0, "orders": 36}
    assert broker.cluster.image.topics.by_name("new") is not None


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name_in_every_version(broker: Administered, version: int) -> None:
    request = DeleteTopicsRequest(topic_names=["orders", "nope"], timeout_ms=SOON_MS)
    response = broker.ask(request, DeleteTopicsResponse, version)
    assert {each.name: each.error_code for each in response.responses} == {"orders": 0, "nope": 3}
    assert list(broker.cluster.image.topics.names()) == ["users"]


def test_topics_are_deleted_by_id(broker: Administered) -> None:
    known = broker.cluster.image.topics.by_name("orders")
    assert known is not None
    request = deleting(known.topic_id, ANY_ID, "users")
    response = broker.ask(request, DeleteTopicsResponse)
    assert [(each.name, each.error_code) for each in response.responses] == [
        ("orders", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("users", 0),
    ]
    assert list(broker.cluster.image.topics.names()) == []


@pytest.mark.parametrize("version", range(4))
def test_topics_grow_in_every_version(broker: Administered, version: int) -> None:
    request = growing(("orders", 3), ("users", 1), ("nope", 2))
    response = broker.ask(request, CreatePartitionsResponse, version)
    assert {each.name: each.error_code for each in response.results} == {
        "orders": 0,
        "users": 37,
        "nope": 3,
    }
    grown = broker.cluster.image.topics.by_name("orders")
    assert grown is not None
    assert len(grown.partitions) == 3


@pytest.mark.parametrize(("version", "code"), [(1, 42), (2, 42), (3, 73), (6, 73)])
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    administered = Administered(delete__topic__enable="false")
    administered.cluster.create(topic("orders"))
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=SOON_MS)
    request = deleting("orders") if version >= 6 else request
    response = administered.ask(request, DeleteTopicsResponse, version)
    assert [(each.name, each.error_code) for each in response.responses] == [("orders", code)]
    assert administered.channel.asked == []
    assert list(administered.cluster.image.topics.names()) == ["orders"]


def verdicts(response: Response) -> list[tuple[str | None, int]]:
    """Topic and code, whichever of the three it is."""
    if isinstance(response, CreateTopicsResponse):
        return [(each.name, each.error_code) for each in response.topics]
    if isinstance(response, DeleteTopicsResponse):
        return [(each.name, each.error_code) for each in response.responses]
    assert isinstance(response, CreatePartitionsResponse)
    return [(each.name, each.error_code) for each in response.results]


@pytest.mark.parametrize(
    "request_",
    [creating("a", "b", "a"), deleting("a", "b", "a"), growing(("a", 2), ("b", 2), ("a", 3))],
)
def test_without_a_controller_each_topic_hears_why(broker: Administered, request_: Request) -> None:
    broker.channel.refusals.append(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    (response,) = broker.send(request_).answers
    assert verdicts(response) == [("a", 35), ("b", 35)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_gives_no_time_hears_that_it_is_over_and_nothing_is_done(
    broker: Administered, timeout_ms: int
) -> None:
    """As Apache Kafka 4.3.1 does: a topic that is created with no time does not exist after."""
    requests: list[Request] = [
        creating("new", timeout_ms=timeout_ms),
        deleting("orders", timeout_ms=timeout_ms),
        growing(("users", 2), timeout_ms=timeout_ms),
    ]
    for request in requests:
        (response,) = broker.send(request).answers
        ((_, code),) = verdicts(response)
        assert code == ErrorCode.REQUEST_TIMED_OUT
    assert broker.channel.asked == []


def test_a_refusal_by_id_has_the_id(broker: Administered) -> None:
    response = broker.ask(deleting(ANY_ID, timeout_ms=0), DeleteTopicsResponse)
    ((name, topic_id),) = [(each.name, each.topic_id) for each in response.responses]
    assert (name, topic_id) == (None, ANY_ID)
