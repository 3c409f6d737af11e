"""Reading from a replica of the own rack (KIP-392): three brokers of Apache Kafka in three racks.

The leader of a partition is stopped in the midst (SIGSTOP: it answers nobody, and is not dead to
the others yet). Who reads from the follower of its own rack does not notice.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

pytestmark = pytest.mark.real

TOPIC: Final = "replicated"
COUNT: Final = 500
SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaBroker]]:
    """Three, the first of which is the controller too; rack-1, rack-2, rack-3."""
    kafka = fetch_or_skip()
    with ExitStack() as stack:
        started: list[KafkaBroker] = []
        for node_id in (1, 2, 3):
            properties = {
                "broker.rack": f"rack-{node_id}",
                "replica.selector.class": SELECTOR,
                "broker.session.timeout.ms": "6000",  # longer than one is stopped below
                "broker.heartbeat.interval.ms": "500",
            }
            joins = started[0] if started else None
            options = BrokerOptions("256m", properties=properties, node_id=node_id, joins=joins)
            folder = tmp_path_factory.mktemp(f"node-{node_id}")
            started.append(stack.enter_context(KafkaBroker.started(kafka, folder, options)))
        yield started


@contextmanager
def stopped(broker: KafkaBroker) -> Iterator[None]:
    """From when the last of its threads has stopped, which is a while after the signal."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED)
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


async def fill(bootstrap: str) -> None:
    """One partition: broker 2 leads it, 1 (the controller too) and 3 follow."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(NewTopic(TOPIC, assignments=[[2, 1, 3]]))
    async with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        for at in range(COUNT):
            await producer.send(TOPIC, b"%d" % at, partition=0)
        await producer.flush()


async def read_from_the_start(consumer: Consumer) -> None:
    """All of it, in order, fetched anew."""
    consumer.seek((TOPIC, 0), 0)
    seen: list[bytes | None] = []
    while len(seen) < COUNT:
        seen += [each.value for part in await consumer.poll(1.0) for each in part.records]
    assert seen == [b"%d" % at for at in range(COUNT)]


def test_who_has_a_replica_in_its_rack_reads_from_it(brokers: list[KafkaBroker]) -> None:
    bootstrap = ",".join(each.bootstrap_servers for each in brokers)
    _, leader, follower = brokers

    async def main() -> None:
        await fill(bootstrap)
        async with (
            asyncio.timeout(60),
            Consumer(bootstrap_servers=bootstrap, client_rack="rack-3") as near,
            Consumer(bootstrap_servers=bootstrap) as anywhere,
        ):
            for each in (near, anywhere):
                each.assign([(TOPIC, 0)])
                await read_from_the_start(each)
            with stopped(leader):
                await read_from_the_start(near)
                anywhere.seek((TOPIC, 0), 0)
                assert await anywhere.poll(1.0) == [], "it reads from the leader, which is stopped"
            await read_from_the_start(anywhere)

            follower.kill()  # the leader names it until the controller takes it for dead
            await read_from_the_start(near)
            with stopped(leader):
                near.seek((TOPIC, 0), 0)
                assert await near.poll(1.0) == [], "it has gone back to the leader"
            await read_from_the_start(near)

    asyncio.run(main())
