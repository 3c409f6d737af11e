"""ListPartitionReassignments: what the image says is on its way."""

from __future__ import annotations

import pytest

from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from tests.broker.api.administered import Administered
from tests.broker.controller.cluster import topic

Told = list[tuple[str, list[tuple[int, list[int], list[int], list[int]]]]]
MOVES: Told = [("orders", [(1, [1, 2], [2], [1])]), ("users", [(0, [1, 2], [2], [])])]


@pytest.fixture
def broker() -> Administered:
    administered = Administered(1, 2)
    cluster = administered.cluster
    cluster.create(*(topic(name, placed={0: [1], 1: [1]}) for name in ("orders", "users", "idle")))
    for name, number, removing in (("orders", 1, [1]), ("users", 0, [])):
        known = cluster.image.topics.by_name(name)
        assert known is not None
        change = PartitionChangeRecord(
            partition_id=number,
            topic_id=known.topic_id,
            replicas=[1, 2],
            adding_replicas=[2],
            removing_replicas=removing,
        )
        cluster.append([change])
    return administered


def test_the_timeout_of_a_list_is_ignored_as_by_kafka(broker: Administered) -> None:
    request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=0)
    response = broker.ask(request, ListPartitionReassignmentsResponse)
    assert response.error_code == 0
    assert [each.name for each in response.topics] == ["orders", "users"]


def listed(broker: Administered, topics: dict[str, list[int]] | None) -> Told:
    request = ListPartitionReassignmentsRequest(
        topics=None
        if topics is None
        else [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in topics.items()
        ]
    )
    response = broker.ask(request, ListPartitionReassignmentsResponse)
    assert (response.error_code, response.error_message) == (0, None)
    return [
        (
            each.name,
            [
                (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
                for one in each.partitions
            ],
        )
        for each in response.topics
    ]


def test_all_that_move_and_nothing_else(broker: Administered) -> None:
    assert listed(broker, None) == MOVES


def test_of_those_that_were_asked_for(broker: Administered) -> None:
    assert (
        listed(broker, {"users": [0, 1], "orders": [0], "nope": [0], "idle": [0, 7]}) == MOVES[1:]
    )
    assert listed(broker, {}) == []
