"""Records in turn over the partitions of a topic, and a consumer that reads them in a group."""

from __future__ import annotations

from typing import Any

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer


def write(bootstrap: str, topic: str, count: int, partitions: int = 1) -> None:
    """`count` records of value b"0", b"1", ... in turn over the partitions of a new topic."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(topic, partitions=partitions))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def reading(bootstrap: str, group: str, **options: Any) -> Consumer:
    return Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **options
    )
