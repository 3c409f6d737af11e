"""Brokers of two clusters swap their ports: a client stays with the cluster that it knows.

Both have a broker of the same id and a topic of the same name. The client's bootstrap server stays
where it was, and says where the broker is now (KIP-1242). Of Java's clients the consumer and the
producer name the broker that they mean; its Admin names none, and asks the other cluster.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import LATEST, Admin, NewTopic, Producer, TopicPartition
from moldau.testing import Cluster
from moldau.testing.cluster import Layout
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip

pytestmark = [pytest.mark.real, pytest.mark.deep]

PROGRAM: Final = Path(__file__).parent / "programs" / "SwappedPorts.java"
PLACE: Final = TopicPartition("t", 1)
STAYING, MOVING = 1, 2
AWAY_S: Final = 5.0
PATIENCE_S: Final = 120.0
STRANGE: Final = 100
"""The records of the other cluster."""

Write = Callable[[str], tuple[int, int]]
"""Asks where the partition ends, writes a record, and returns that end and the record's offset."""


@contextmanager
def ours(bootstrap: str) -> Iterator[Write]:
    with (
        Producer(bootstrap_servers=bootstrap) as producer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):

        def write(text: str) -> tuple[int, int]:
            end = admin.list_offsets({PLACE: LATEST})[PLACE].offset
            sent = producer.send_and_wait(PLACE.topic, text.encode(), partition=PLACE.partition)
            return end, sent.offset

        yield write


@contextmanager
def java(kafka: ApacheKafka, bootstrap: str) -> Iterator[Write]:
    command = [*kafka.command("-XX:TieredStopAtLevel=1", "-Xmx128m"), str(PROGRAM)]
    with subprocess.Popen(  # noqa: S603 - our own file, run by the java that was found
        [*command, bootstrap, PLACE.topic, str(PLACE.partition)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        said, asked = process.stdout, process.stdin

        def write(text: str) -> tuple[int, int]:
            asked.write(f"{text}\n")
            asked.flush()
            answer = next(line for line in said if line.startswith("AT;"))
            _, end, offset = answer.split(";")
            return int(end), int(offset)

        try:
            yield write
        finally:
            process.kill()


def fill(bootstrap: str, assignments: list[list[int]], count: int) -> None:
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        admin.create_topic(NewTopic(PLACE.topic, assignments=assignments))
        for _ in range(count):
            producer.send_and_wait(PLACE.topic, b"first", partition=PLACE.partition)


@pytest.mark.parametrize("client", ["moldau", "java"])
def test_a_client_stays_with_its_cluster_when_ports_are_swapped(
    client: str, tmp_path: Path
) -> None:
    kafka = fetch_or_skip() if client == "java" else None
    lone = Layout(first_id=MOVING)
    with (
        Cluster(2, controllers=1, directory=str(tmp_path / "own")) as own,
        Cluster(1, controllers=1, directory=str(tmp_path / "other"), layout=lone) as other,
    ):
        bootstrap = own.address_of(STAYING)
        fill(bootstrap, [[STAYING], [MOVING]], 1)
        own.stop(MOVING)
        own.start(MOVING)  # so that the leader epochs of both are the same in the end
        fill(other.bootstrap_servers, [[MOVING], [MOVING]], STRANGE)
        with ours(bootstrap) if kafka is None else java(kafka, bootstrap) as write:
            assert write("before") == (1, 1)
            (controller,) = own.controller_ids
            own.pause(controller)  # so that the cluster names the broker at its old port
            own.kill(MOVING)
            other.stop(MOVING)
            own.ports[1], other.ports[0] = other.ports[0], own.ports[1]
            other.start(MOVING)
            with ThreadPoolExecutor(1) as beside:
                first = beside.submit(write, "while it is away")
                assert not wait((first,), AWAY_S).done, "the other cluster has answered"
                own.resume(controller)
                own.start(MOVING)
                assert first.result(PATIENCE_S) == (2, 2)
            assert write("after") == (3, 3)
        with Admin(bootstrap_servers=other.bootstrap_servers) as admin:
            assert admin.list_offsets({PLACE: LATEST})[PLACE].offset == STRANGE
