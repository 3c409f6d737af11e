"""DescribeProducers: who wrote last, and what is open."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from moldau.records import Producer
from tests.broker.api.requests import NOW, batch, produce
from tests.broker.api.serving import Serving, serving


async def describe(at: Serving, topic: str, *indexes: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(indexes))]
    )
    answer = await at.ask(request, DescribeProducersResponse)
    (found,) = answer.topics
    assert found.name == topic
    return found.partitions


@serving()
async def test_what_a_leader_remembers(at: Serving) -> None:
    at.create("t", 2)
    at.send(produce("t", batch(3, producer=Producer(7, 1, 0))), 12)
    log = at.partition("t").log
    log.append_as_leader(batch(2, producer=Producer(8, 0, 0, True)), 0, NOW)
    with_two, without = await describe(at, "t", 0, 1)
    assert without.active_producers == []
    facts = [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in with_two.active_producers
    ]
    assert facts == [(7, 1, 2, NOW + 2, -1, -1), (8, 0, 1, NOW + 1, -1, 3)]


@serving()
async def test_what_is_refused_is_told_in_words(at: Serving) -> None:
    at.create("t")
    cases = {
        ("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a b", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
        ("", 0): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    for (topic, index), code in cases.items():
        (found,) = await describe(at, topic, index)
        assert (found.error_code, found.active_producers) == (code, [])
        assert found.error_message
