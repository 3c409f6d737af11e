"""Records to a sink, and the dead letters that it leaves."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.client.sync import Consumer, Producer


def dead_letters(bootstrap: dict[str, str], topic: str) -> list[bytes]:
    """The values in the queue, in their order."""
    with Consumer({**bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        if topic not in {each.name for each in consumer.list_topics()}:
            return []
        consumer.assign([(topic, 0)])
        end = consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]
        found: list[bytes] = []
        while len(found) < end:
            for part in consumer.poll(1.0):
                found += [bytes(raw.value or b"") for raw in part.records]
    return found


def send(bootstrap: dict[str, str], topic: str, *values: bytes) -> None:
    with Producer(bootstrap) as producer:
        for each in values:
            producer.send(topic, each)
