"""What a topic has for a reader of committed records."""

from __future__ import annotations

from moldau.client import ConsumerRecord
from moldau.client.sync import Consumer
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until


def committed(bootstrap: str, topic: str) -> list[str]:
    """The committed values of a topic, from its start to its end."""
    return [(record.value or b"").decode() for record in read(bootstrap, topic)]


def read(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """The committed records of a topic, from its start to its end."""
    found: list[ConsumerRecord] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        places = consumer.partitions(topic)
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        while any((consumer.position(place) or 0) < end for place, end in ends.items()):
            for part in consumer.poll(1.0):
                found += part.records
    return found


def wait_for_records(broker: SyncEmbeddedBroker, topic: str, count: int) -> None:
    bootstrap = broker.bootstrap_servers
    wait_until(lambda: len(committed(bootstrap, topic)) >= count, f"{count} records are committed")
