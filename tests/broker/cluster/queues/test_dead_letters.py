"""What a share group gives up is copied whole to its topic of dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from moldau.broker.share.piece import AcknowledgeType
from moldau.client import (
    Admin,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    TopicPartition,
)
from moldau.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from tests.broker.cluster.queues.wire import GROUP, Wire
from tests.broker.cluster.world import SimulatedBrokers

TOPIC, GRAVES = "orders", "dlq.orders"


async def read_one(wire: Wire, topic_id: bytes) -> int:
    """The broker that gave the records."""
    while True:
        try:
            await wire.beat([TOPIC], {topic_id: TOPIC})
            for leader, places in wire.places_by_leader().items():
                answer = await wire.fetch(leader, places, {}, {TOPIC: topic_id})
                rows = [row for each in answer.responses for row in each.partitions]
                if any(row.acquired_records for row in rows):
                    return leader
        except KafkaError:
            pass  # the coordinators begin
        await asyncio.sleep(0.2)


async def reject(wire: Wire, leader: int, topic_id: bytes, last: int, reason: str) -> None:
    batch = AcknowledgementBatch(
        first_offset=0, last_offset=last, acknowledge_types=[AcknowledgeType.REJECT], reason=reason
    )
    partition = AcknowledgePartition(partition_index=1, acknowledgement_batches=[batch])
    request = ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id=wire.member,
        share_session_epoch=wire.sessions[leader].epoch,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
    )
    answer = await wire._ask(leader, request, ShareAcknowledgeResponse)
    assert answer.responses[0].partitions[0].error_code == 0


def copies_of(values: Sequence[bytes], graves: Mapping[str, str]) -> list[Any]:
    """The dead letters of records with these values, which are all rejected at once. `graves` are
    the settings of their topic."""
    copies: list[Any] = []
    with Simulation(7, Options()) as world:
        brokers = SimulatedBrokers(world, 3)
        brokers.await_up(within=60)

        async def main(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic(TOPIC, 2, 3), NewTopic(GRAVES, 1, 3, graves)])
                settings = {"share.auto.offset.reset": "earliest", "share.dlq.topic": GRAVES}
                await admin.alter_configs(Resource(ResourceType.GROUP, GROUP), set_to=settings)
            async with Producer(
                runtime=runtime, bootstrap_servers=servers, linger_ms=100, batch_size=4_000_000,
                max_request_size=4_000_000,
            ) as producer:  # fmt: skip
                for value in values:
                    await producer.send(
                        TOPIC,
                        value,
                        key=b"4",
                        headers=[("trace", b"x1")],
                        partition=1,
                        timestamp_ms=1_700_000_000_123,
                    )
                await producer.flush()
            topic = next(iter(brokers.running.values())).node.image.topics.by_name(TOPIC)
            assert topic is not None
            wire = Wire(runtime, brokers, "reader", Random(1))
            leader = await read_one(wire, topic.topic_id)
            await reject(wire, leader, topic.topic_id, len(values) - 1, "no such customer")
            await wire.aclose()
            async with Consumer(
                runtime=runtime, bootstrap_servers=servers, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([TopicPartition(GRAVES, 0)])
                while len(copies) < len(values):
                    copies.extend(
                        record for part in await consumer.poll(1.0) for record in part.records
                    )

        brokers.run(main, within=300)
    return copies


def test_a_rejected_record_is_copied_with_where_it_was_and_why() -> None:
    (copy,) = copies_of([b"four"], {})
    assert (copy.key, copy.value, copy.timestamp) == (b"4", b"four", 1_700_000_000_123)
    assert list(copy.headers) == [
        ("trace", b"x1"),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"1"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", GROUP.encode()),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"no such customer"),
    ]


@pytest.mark.parametrize("most", [1_048_588, 20_000])
def test_records_that_are_too_large_together_are_copied_whole(most: int) -> None:
    values = [bytes([number]) * (most // 3) for number in range(8)]

    copies = copies_of(values, {"max.message.bytes": str(most)})

    assert [copy.value for copy in copies] == values


def test_a_record_that_is_too_large_alone_leaves_a_letter_and_those_beside_it_their_values() -> (
    None
):
    copies = copies_of([b"a", b"b" * 3_000, b"c"], {"max.message.bytes": "2000"})

    assert [(copy.key, copy.value) for copy in copies] == [
        (b"4", b"a"),
        (None, None),
        (b"4", b"c"),
    ]
