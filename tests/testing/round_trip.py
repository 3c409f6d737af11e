"""One record, written and read back by a client."""

from __future__ import annotations

from moldau.client.sync import Admin, Consumer, NewTopic, Producer


def sends_and_reads(bootstrap: str, topic: str, replicas: int = 1) -> None:
    """A client of that address writes a record and reads it back."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(topic, 1, replicas))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"hello").result(30)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions(topic))
        found: list[bytes | None] = []
        while not found:
            found = [record.value for part in consumer.poll(1.0) for record in part.records]
    assert found == [b"hello"]
