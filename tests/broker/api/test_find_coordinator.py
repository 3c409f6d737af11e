"""FindCoordinator: who leads the group's partition; the topic is made by asking."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.broker.api.administered import Administered

TOPIC = "__consumer_offsets"


def created() -> Administered:
    """A broker whose topic is there."""
    at = Administered()
    at.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 6)
    assert at.node.image.topics.by_name(TOPIC) is not None
    return at


@pytest.mark.parametrize("version", range(4))
def test_the_first_who_asks_makes_the_topic(version: int) -> None:
    at = Administered(offsets__topic__num__partitions="3")
    answer = at.ask(FindCoordinatorRequest(key="group"), FindCoordinatorResponse, version)

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    assert answer.error_message == (f"{TOPIC} is being created" if version else "")
    (request,) = at.channel.asked
    assert isinstance(request, CreateTopicsRequest)
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (TOPIC, 3, 1)
    (context,) = at.channel.contexts
    assert (str(context.principal), context.client_id) == ("Node:1", "1")
    configs = {each.name: each.value for each in topic.configs}
    assert configs["cleanup.policy"] == "compact"

    at.ask(FindCoordinatorRequest(key="group"), FindCoordinatorResponse, version)
    assert len(at.channel.asked) == 1


@pytest.mark.parametrize("version", range(7))
def test_who_leads_the_partition_coordinates_the_group(version: int) -> None:
    at = created()
    if version < 4:
        one = at.ask(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, version)
        assert (one.error_code, one.node_id, one.host, one.port) == (0, 1, "here", 9092)
        return
    request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
    answer = at.ask(request, FindCoordinatorResponse, version)
    found = [(each.key, each.error_code, each.node_id, each.host) for each in answer.coordinators]
    assert found == [("g", 0, 1, "here"), ("h", 0, 1, "here")]


def test_a_client_hears_the_address_of_its_own_listener() -> None:
    at = created()
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    inside = at.ask(request, FindCoordinatorResponse, 6, via="INSIDE")
    assert [(each.host, each.port) for each in inside.coordinators] == [("inside", 9094)]
    nowhere = at.ask(request, FindCoordinatorResponse, 6, via="OTHER")
    codes = [each.error_code for each in nowhere.coordinators]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("version", range(4, 7))
@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.INVALID_REQUEST),
        (-1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_keys_have_no_coordinator(version: int, key_type: int, code: ErrorCode) -> None:
    at = Administered()
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    answer = at.ask(request, FindCoordinatorResponse, version)

    found = [(each.key, each.node_id, each.host, each.port) for each in answer.coordinators]
    assert found == [("a", -1, "", -1), ("b", -1, "", -1)]
    assert {each.error_code for each in answer.coordinators} == {code}
    assert at.channel.asked == []


def test_who_asks_for_nothing_makes_nothing() -> None:
    at = Administered()
    answer = at.ask(FindCoordinatorRequest(), FindCoordinatorResponse, 6)
    assert answer.coordinators == []
    assert at.channel.asked == []


def test_the_first_transactional_id_creates_its_topic() -> None:
    at = Administered(transaction__state__log__replication__factor="1")
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["app"])
    (before,) = at.ask(request, FindCoordinatorResponse, 6).coordinators
    assert before.error_message == "__transaction_state is being created"
    (found,) = at.ask(request, FindCoordinatorResponse, 6).coordinators
    assert (found.error_code, found.node_id, found.host) == (0, 1, "here")
    assert len(at.channel.asked) == 1


@pytest.mark.parametrize(
    ("given", "replicas", "in_sync"),
    [
        ({}, 1, "1"),
        ({"share__coordinator__state__topic__replication__factor": "2"}, 2, "2"),
        ({"share__coordinator__state__topic__min__isr": "2"}, 1, "2"),
    ],
)
def test_replicas_of_share_states_follow_the_number_of_brokers_unless_set(
    given: dict[str, Any], replicas: int, in_sync: str
) -> None:
    at = Administered(**given)
    key = f"g:{'A' * 22}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    at.ask(request, FindCoordinatorResponse, 6)
    (asked,) = at.channel.asked
    assert isinstance(asked, CreateTopicsRequest)
    (topic,) = asked.topics
    configs = {each.name: each.value for each in topic.configs}
    assert (topic.num_partitions, topic.replication_factor) == (50, replicas)
    assert configs["min.insync.replicas"] == in_sync
