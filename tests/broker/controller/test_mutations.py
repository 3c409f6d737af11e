"""Quotas on topic changes (KIP-599): strict for clients that know the error, else a wait."""

from __future__ import annotations

import pytest

from moldau.broker.controller.mutations import STRICT_SINCE
from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData
from tests.broker.controller.cluster import Cluster

WINDOW_S = 11


def limited(rate: float) -> Cluster:
    """A cluster whose clients with the id `c` may change that many partitions a second."""
    cluster = Cluster(1)
    parts = [EntityData(entity_type="client-id", entity_name="c")]
    key = "controller_mutation_rate"
    cluster.append([ClientQuotaRecord(entity=parts, key=key, value=rate, remove=False)])
    return cluster


def asked(cluster: Cluster, request: Request, version: int, client_id: str = "c") -> Response:
    context = RequestContext(client_id, "/127.0.0.1", version, "PLAINTEXT")
    outcome = cluster.controller.on_request(request, context, cluster.inputs)
    cluster.append(outcome.records)
    response: Response = outcome.response
    return response


def creating(*topics: tuple[str, int]) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
        )
        for name, count in topics
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=1000, validate_only=False)


def codes(response: Response) -> list[int]:
    rows = getattr(response, "topics", None) or getattr(response, "results", None)
    return [each.error_code for each in rows or response.responses]  # type: ignore[attr-defined]


def test_a_strict_request_is_refused_topic_by_topic_and_says_how_long_to_wait() -> None:
    cluster = limited(1.0)
    newest = STRICT_SINCE[CreateTopicsRequest]
    response = asked(cluster, creating(("a", WINDOW_S), ("b", 10), ("c", 1)), newest)
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert codes(response) == [0, 0, refused], "the bucket may be emptied beyond once"
    assert response.throttle_time_ms == 10_000  # type: ignore[attr-defined]
    assert codes(asked(cluster, creating(("c", 1)), newest, "other")) == [0]
    deleted = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="c", topic_id=ZERO_UUID)], topic_names=[], timeout_ms=1000
    )
    assert codes(asked(cluster, deleted, 6)) == [refused]
    grown = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="c", count=2, assignments=None)],
        timeout_ms=1000,
        validate_only=False,
    )
    assert codes(asked(cluster, grown, 3)) == [refused]
    cluster.now_ms += 10_000
    response = asked(cluster, grown, 3)
    assert codes(response) == [0]
    assert response.throttle_time_ms == 1000  # type: ignore[attr-defined]
    assert codes(asked(cluster, deleted, 6)) == [refused]
    cluster.now_ms += 1000
    response = asked(cluster, deleted, 6)
    assert codes(response) == [0]
    assert response.throttle_time_ms == 2000, "one for each partition"  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [2, 5])
def test_clients_that_do_not_know_the_error_are_served_and_wait(version: int) -> None:
    cluster = limited(0.5)
    response = asked(cluster, creating(("a", 6), ("b", 6), ("c", 6)), version)
    assert codes(response) == [0, 0, 0]
    assert response.throttle_time_ms == 25_000  # type: ignore[attr-defined]


def test_the_rate_of_a_client_that_waits_is_its_quota() -> None:
    cluster, made, number = limited(5.0), 0, 0
    begin_ms = cluster.now_ms
    while cluster.now_ms < begin_ms + 300_000:
        number += 1
        response = asked(cluster, creating((f"t{number}", 3)), 7)
        made += 3 * codes(response).count(0)
        cluster.now_ms += max(1, response.throttle_time_ms)  # type: ignore[attr-defined]
    assert (made - 5 * WINDOW_S) / 300 == pytest.approx(5.0, rel=0.01)
