"""Our share consumer on Apache Kafka, and on our own broker."""

from __future__ import annotations

from typing import Any, Final

import pytest

from moldau.client import (
    Admin,
    ErrorCode,
    KafkaError,
    Message,
    Producer,
    Resource,
    ResourceType,
    ShareConsumer,
)
from tests.client.test_real_kafka import make_topic, run
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real

COUNT: Final = 40
LOCK_MS: Final = 15_000
"""The shortest lock that Kafka gives."""
Messages = list[Message[Any, Any]]


async def fill(broker: Broker, name: str) -> None:
    """Make a topic of two partitions with numbered records, and a group of its name that begins at
    their start."""
    await make_topic(broker, name, 2)
    wanted = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
    }
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_configs(Resource(ResourceType.GROUP, name), set_to=wanted)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.send(name, b"%d" % number, partition=number % 2)


def queue_of(broker: Broker, name: str) -> ShareConsumer[Any, Any]:
    return ShareConsumer(
        name,
        group=name,
        bootstrap_servers=broker.bootstrap_servers,
        share_acknowledgement_mode="explicit",
    )


async def some(queue: ShareConsumer[Any, Any], count: int) -> Messages:
    found: Messages = []
    while len(found) < count:
        found += await queue.poll(30.0, max_records=count - len(found))
    return found


def test_messages_are_done_given_back_and_given_up(broker: Broker) -> None:
    async def main() -> None:
        await fill(broker, "answers")
        async with queue_of(broker, "answers") as queue:
            found = await some(queue, COUNT)
            assert sorted(int(each.value) for each in found) == list(range(COUNT))
            assert {each.delivery_count for each in found} == {1}
            for each in found:
                match int(each.value):
                    case 7:
                        assert each.release()
                    case 8:
                        assert each.reject("never")
                    case 9:
                        pass  # the consumer's end gives it back
                    case _:
                        assert each.ack()
            (again,) = await some(queue, 1)
            assert (int(again.value), again.delivery_count) == (7, 2)
            assert again.ack()
            assert await queue.commit() == {}
        async with queue_of(broker, "answers") as queue:
            (left,) = await some(queue, 1)
            assert int(left.value) == 9
            assert left.ack()
            assert await queue.commit() == {}
            assert await queue.poll(1.0) == [], "all else is done or given up"

    run(main)


def test_apache_kafka_renews_locks_and_what_it_lacks_is_refused_by_name(
    kafka_broker: KafkaBroker,
) -> None:
    async def main() -> None:
        await fill(kafka_broker, "renewed")
        async with queue_of(kafka_broker, "renewed") as slow:
            found = await some(slow, COUNT)
            with pytest.raises(KafkaError, match=r"release\(delay=\.\.\.\)") as refused:
                found[0].release("30s")
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
            async with queue_of(kafka_broker, "renewed") as other:
                assert await other.poll(LOCK_MS / 1000 + 2) == [], "they are locked on"
            for each in found:
                assert each.ack()
            assert await slow.commit() == {}

    run(main)
