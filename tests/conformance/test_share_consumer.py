"""Our share consumer on Apache Kafka, and on our broker: what is said of a message is so, locks are
renewed, and what Kafka lacks is refused by its name."""

from __future__ import annotations

from typing import Any, Final

import pytest

from moldau.client import ErrorCode, KafkaError, NewTopic, Resource, ResourceType
from moldau.client.sync import Admin, Message, Producer, ShareConsumer
from tests.conformance.broker import moldau as moldau
from tests.conformance.nodes import three_nodes as three_nodes
from tests.peers.either_broker import Broker, either
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = [pytest.mark.real, pytest.mark.deep]

COUNT: Final = 20
LOCK_S: Final = 15.0
"""The shortest that a broker grants by default."""
PATIENCE_S: Final = 300.0
OURS: Final = {
    "share.retry.backoff": "1s",
    "share.dlq.topic": "dlq.mailer",
    "share.deliver.at.enable": "true",
}
broker = either("kafka_broker", "moldau", "three_nodes")


def prepared(broker: Broker, name: str, count: int = COUNT, **settings: str) -> str:
    """Fill a topic, and let the group of its name begin at its start."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(NewTopic(name, 1))
        values = {name.replace("_", "."): value for name, value in settings.items()}
        values["share.auto.offset.reset"] = "earliest"
        admin.alter_configs(Resource(ResourceType.GROUP, name), set_to=values)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(name, b"%d" % number)
        producer.flush()
    return name


def consumer(broker: Broker, name: str, **options: Any) -> ShareConsumer[Any, Any]:
    return ShareConsumer(name, group=name, bootstrap_servers=broker.bootstrap_servers, **options)


def some(queue: ShareConsumer[Any, Any], count: int) -> list[Message[Any, Any]]:
    found: list[Message[Any, Any]] = []
    while len(found) < count:
        got = queue.poll(PATIENCE_S, max_records=count - len(found))
        assert got, f"{len(found)} of {count} messages came"
        found += got
    return found


def lag(broker: Broker, name: str) -> int | None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return admin.group_progress(name).lag


@pytest.mark.parametrize("acquire", ["batch_optimized", "record_limit"])
def test_messages_are_acknowledged_released_and_rejected(broker: Broker, acquire: str) -> None:
    name = prepared(broker, f"says-{acquire}")
    deliveries: dict[int, int] = {}
    explicit = {"share_acknowledgement_mode": "explicit", "share_acquire_mode": acquire}
    with consumer(broker, name, **explicit) as queue:
        left = COUNT
        while left:
            for message in some(queue, 1):
                number = int(message.value)
                deliveries[number] = message.delivery_count
                if number == 7 and message.delivery_count < 3:
                    assert message.release()
                    continue
                left -= 1
                assert message.reject("never") if number == 8 else message.ack()
        assert queue.commit() == {}
    assert deliveries == {**dict.fromkeys(range(COUNT), 1), 7: 3}
    assert lag(broker, name) == 0


def test_what_is_not_answered_comes_to_the_next_one(broker: Broker) -> None:
    name = prepared(broker, "leaves")
    with consumer(broker, name) as queue:
        some(queue, 5)
        last = [int(each.value) for each in some(queue, 3)]
    with consumer(broker, name) as queue:
        again = {int(each.value): each.delivery_count for each in some(queue, COUNT - 5)}
        assert sorted(again) == list(range(5, COUNT))
        assert all(again[each] == 2 for each in last)


def test_a_lock_is_renewed_while_a_message_is_in_work(kafka_broker: KafkaBroker) -> None:
    lock = {"share_record_lock_duration_ms": f"{LOCK_S * 1000:.0f}"}
    name = prepared(kafka_broker, "renews", 1, **lock)
    explicit = {"share_acknowledgement_mode": "explicit"}
    with consumer(kafka_broker, name, **explicit) as queue:
        (message,) = some(queue, 1)
        with consumer(kafka_broker, name, **explicit) as another:
            assert another.poll(LOCK_S * 1.6) == [], "its lock has ended"
            assert message.ack()
            assert queue.commit() == {}
    assert lag(kafka_broker, name) == 0


def test_a_message_comes_as_often_as_the_group_says(broker: Broker) -> None:
    name = prepared(broker, "gives-up", 1)
    with consumer(broker, name) as queue:
        counts = []
        for _ in range(5):
            (message,) = some(queue, 1)
            counts.append(message.delivery_count)
            assert message.release()
        assert queue.commit() == {}
    assert counts == [1, 2, 3, 4, 5]
    assert lag(broker, name) == 0


def test_what_kafka_lacks_is_refused_by_its_name(kafka_broker: KafkaBroker) -> None:
    name = prepared(kafka_broker, "lacks", 2)
    with consumer(kafka_broker, name) as queue:
        first, second = some(queue, 2)
        with pytest.raises(KafkaError, match=r"does not have release\(delay=\.\.\.\)") as refused:
            first.release(delay="30s")
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert first.ack(), "it can still be answered"
        assert second.reject("a reason is passed over")
        assert queue.commit() == {}
    assert lag(kafka_broker, name) == 0
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        for setting, value in OURS.items():
            with pytest.raises(KafkaError, match=setting) as refused:
                admin.alter_configs(Resource(ResourceType.GROUP, name), set_to={setting: value})
            assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_what_is_ours_works_on_our_broker(moldau: Broker) -> None:
    name = prepared(moldau, "has", 1, **{each.replace(".", "_"): OURS[each] for each in OURS})
    with consumer(moldau, name) as queue:
        (message,) = some(queue, 1)
        assert message.release(delay="2s")
        assert queue.poll(0.5) == []
        (message,) = some(queue, 1)
        assert message.delivery_count == 2
