"""A member of a group: confluent-kafka, that is librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.conformance.programs.members.member import (
    COMMIT_INTERVAL_MS,
    Telling,
    Wish,
    end_of_input,
)


def main() -> None:
    wish, telling, is_over = Wish.told(), Telling(), end_of_input()
    settings: dict[str, Any] = {
        "bootstrap.servers": wish.bootstrap,
        "client.id": wish.name,
        "group.id": wish.group,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
        "enable.auto.offset.store": False,  # else it commits what was not told yet
    }
    if wish.instance:
        settings["group.instance.id"] = wish.instance
    if wish.strategy == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["session.timeout.ms"] = wish.session_ms
        settings["heartbeat.interval.ms"] = wish.heartbeat_ms
        settings["partition.assignment.strategy"] = wish.strategy
    consumer = Consumer(settings)

    def came(_: Any, partitions: list[TopicPartition]) -> None:
        telling.came(each.partition for each in partitions)

    def went(_: Any, partitions: list[TopicPartition]) -> None:
        telling.went(each.partition for each in partitions)

    consumer.subscribe([wish.topic], on_assign=came, on_revoke=went, on_lost=went)
    while not is_over.is_set():
        message: Any = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        telling.read([(message.partition(), message.offset())])
        consumer.store_offsets(message=message)
    consumer.close()


if __name__ == "__main__":
    main()
