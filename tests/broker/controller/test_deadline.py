"""A request whose deadline has passed is not decided any more."""

from __future__ import annotations

import pytest

from moldau.broker.decision.context import RequestContext
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from tests.broker.controller.cluster import Cluster, topic

CLIENT = RequestContext("app", "/10.0.0.7", 7, "PLAINTEXT")
CREATE = CreateTopicsRequest(topics=[topic("orders")], timeout_ms=100)


def test_a_request_is_decided_until_its_deadline() -> None:
    cluster = Cluster(1)
    limited = CLIENT.with_timeout(100, cluster.now_ms)
    cluster.now_ms += 99
    outcome = cluster.controller.on_request(CREATE, limited, cluster.inputs)
    assert outcome.records


@pytest.mark.parametrize("late_ms", [0, 1, 60_000])
def test_a_request_is_not_decided_after_its_deadline(late_ms: int) -> None:
    cluster = Cluster(1)
    limited = CLIENT.with_timeout(100, cluster.now_ms)
    cluster.now_ms += 100 + late_ms
    with pytest.raises(KafkaError) as refused:
        cluster.controller.on_request(CREATE, limited, cluster.inputs)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_request_without_a_timeout_is_always_decided() -> None:
    cluster = Cluster(1)
    cluster.now_ms *= 1000
    assert cluster.controller.on_request(CREATE, CLIENT, cluster.inputs).records
