"""Groups for tests of commands: topics with records, and a member at work in a thread.

A test that takes the fixtures imports them with those that they stand on:

    from tests.cli.groups import cluster as cluster
    from tests.cli.groups import shell as shell
    from tests.conformance.broker import moldau as moldau
    from tests.peers.kafka_broker import kafka_broker as kafka_broker
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from moldau.cli.commands.cluster_connection import OpenClient, opened
from moldau.client import Consumer
from tests.cli.shell import Shell
from tests.peers.either_broker import Broker, either
from tests.peers.eventually import eventually

Cluster = Broker
cluster = either("kafka_broker", "moldau")


@pytest.fixture
def shell(cluster: Cluster) -> Shell:
    """Runs commands against it."""
    return Shell(cluster.bootstrap_servers)


def fill(shell: Shell, topic: str, counts: Sequence[int]) -> None:
    """A topic with so many records in each partition."""
    shell.good("topic", "create", topic, "--partitions", str(len(counts)))
    eventually(lambda: shell("topic", "describe", topic).code == 0)  # Kafka's broker learns of it
    for partition, count in enumerate(counts):
        lines = "".join(f"{partition}-{number}\n" for number in range(count))
        shell.good("produce", topic, "--partition", str(partition), source=lines)


@contextmanager
def member(
    cluster: Cluster, group: str, topic: str, settings: dict[str, str] | None = None
) -> Iterator[OpenClient[Consumer]]:
    """A consumer that is in the group, has read all and has committed it."""
    given = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": "a-member",
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        **(settings or {}),
    }

    async def read_all(client: Consumer) -> None:
        ends = await client.end_offsets(await client.partitions(topic))
        await client.subscribe(topic)
        while {where: each.offset for where, each in client.consumed().items()} != ends:
            await client.poll(1.0)
        await client.commit()

    with opened(lambda runtime: Consumer(given, runtime=runtime)) as consumer:
        consumer.run(read_all)
        yield consumer
