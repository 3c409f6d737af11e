"""The topics of a topology and the rows written to them."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.records import partition_for_key
from moldau.streams import Streams
from tests.streams.broker.apps import PARTITIONS

Row = tuple[str, bytes | None, bytes | None, int, list[tuple[str, bytes]]]


def make_topics(servers: str, app: Streams) -> None:
    plan = app.plan()
    own = {topic.name for topic in plan.repartitions}
    names = {*plan.source_topics(), *(n for each in plan.programs for n in each.outputs)} - own
    configs = {"retention.ms": "-1"}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(each, PARTITIONS, 1, configs) for each in sorted(names)])


def write(producer: Producer, rows: Iterable[Row], keyless: dict[str, int]) -> None:
    for topic, key, value, time, headers in rows:
        if key is None:
            partition = keyless.get(topic, 0) % PARTITIONS
            keyless[topic] = keyless.get(topic, 0) + 1
        else:
            partition = partition_for_key(key, PARTITIONS)
        producer.send(
            topic, value, key=key, partition=partition, timestamp_ms=time, headers=headers
        )
    producer.flush()
