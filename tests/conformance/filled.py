"""A topic for groups to read, written by our client."""

from __future__ import annotations

from typing import Final

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer

TOPIC: Final = "read"
COUNT: Final = 40
PARTITIONS: Final = 2


def fill(bootstrap: str) -> None:
    """A topic with as many records in each of its partitions."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(TOPIC, PARTITIONS))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for at in range(COUNT):
            producer.send(TOPIC, b"%d" % at, partition=at % PARTITIONS)
        producer.flush()
