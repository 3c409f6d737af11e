"""One cluster of moldau and Apache Kafka: a broker of each, and the controller of either.

What is sent to the partitions is led by both. The node that joined is killed and comes back: the
other one leads meanwhile, and in the end both have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime.node_processes import NodeProcess, free_ports
from tests.cli.shell import Shell
from tests.peers.apache_kafka import OLDER, VERSION, ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker

pytestmark = pytest.mark.real

CLUSTER_ID: Final = "vX1bQ2cnRUyKiLqpGRz8WQ"
OURS, THEIRS, CONTROLLER = 1, 2, 101
PARTITIONS: Final = 4


class OurNode:
    """A node of ours with one role."""

    def __init__(self, folder: Path, number: int, controller_port: int, port: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.number = number
        self.port = port
        self._process: NodeProcess | None = None
        is_broker = number == OURS
        self._settings = folder / "server.properties"
        self._settings.write_text(
            f"process.roles={'broker' if is_broker else 'controller'}\n"
            f"node.id={number}\n"
            f"listeners={'PLAINTEXT' if is_broker else 'CONTROLLER'}://{HOST}:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={HOST}:{controller_port}\n"
            f"log.dirs={self.data}\n"
            "offsets.topic.replication.factor=1\n"
        )

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @classmethod
    @contextmanager
    def started(
        cls, folder: Path, number: int, cluster: tuple[str, str], ports: tuple[int, int]
    ) -> Iterator[OurNode]:
        """`cluster` is its id and its release."""
        node = cls(folder, number, *ports)
        cluster_id, release = cluster
        words = ["--release-version", release]
        if number == CONTROLLER:
            words.append("--standalone")
        done = Shell("")(
            *("storage", "format", "--config", str(node._settings)),
            *("--cluster-id", cluster_id, *words),
        )
        assert done.code == 0, done
        try:
            node.start()
            yield node
        finally:
            node.stop()

    def start(self) -> None:
        log = self.folder / "node.log"
        self._process = NodeProcess(["broker", "start", "--config", str(self._settings)], str(log))
        line = self._process.line(60)
        assert line is not None, log.read_text()
        assert " is up" in line

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            if self._process.wait(20) is None:
                self.kill()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(20)
        self._process = None


class Mixed:
    """A topic with a replica on either broker."""

    def __init__(self, ours: OurNode, theirs: KafkaBroker) -> None:
        self.ours = ours
        self.theirs = theirs
        self.shell = Shell(f"{HOST}:{ours.port},{HOST}:{theirs.port}")
        self.sent = 0

    def create(self) -> None:
        words = "--partitions", str(PARTITIONS), "--replicas", "2"
        asked = Shell(f"{HOST}:{self.ours.port}")  # which passes it on to the controller
        asked.good("topic", "create", "mixed", *words)
        eventually(lambda: self.in_sync() == [{OURS, THEIRS}] * PARTITIONS)
        assert set(self.leaders()) == {OURS, THEIRS}

    def _partitions(self) -> list[dict[str, object]]:
        done = self.shell("topic", "describe", "mixed", "--json")
        if done.code:
            return []
        rows: list[dict[str, object]] = done.json[0]["partitions"]
        return rows

    def in_sync(self) -> list[object]:
        return [set(each["isr"]) for each in self._partitions()]  # type: ignore[call-overload]

    def leaders(self) -> list[object]:
        return [each["leader"] for each in self._partitions()]

    def send(self, count: int = 200) -> None:
        """To each partition; acknowledged by all that are in sync."""
        lines = "".join(f"{self.sent + number}\n" for number in range(count))
        for index in range(PARTITIONS):
            words = "--acks", "all", "--partition", str(index)
            done = self.shell("produce", "mixed", *words, source=lines)
            assert done.code == 0, done
        self.sent += count

    def check(self) -> None:
        """Both have what was sent, once, in order, in the same bytes."""
        eventually(lambda: self.in_sync() == [{OURS, THEIRS}] * PARTITIONS)
        for index in range(PARTITIONS):
            read = self.shell("consume", "mixed", "--partition", str(index))
            assert read.out.split() == [str(number) for number in range(self.sent)]
            name = f"mixed-{index}/{0:020}.log"
            bytes_of = (self.ours.data / name).read_bytes(), (self.theirs.data / name).read_bytes()
            assert bytes_of[0] == bytes_of[1]


def live(mixed: Mixed, guest: OurNode | KafkaBroker, host: int) -> None:
    """The guest is killed and comes back."""
    mixed.create()
    mixed.send()
    mixed.check()
    guest.kill()
    eventually(lambda: mixed.leaders() == [host] * PARTITIONS)
    mixed.send()
    guest.start()
    mixed.check()
    mixed.shell("leader", "elect")
    eventually(lambda: set(mixed.leaders()) == {OURS, THEIRS})
    mixed.send()
    mixed.check()


@pytest.fixture(scope="module", params=[OLDER, VERSION])
def kafka(request: pytest.FixtureRequest) -> ApacheKafka:
    return fetch_or_skip(request.param)


def release_of(kafka: ApacheKafka) -> str:
    return kafka.version.rpartition(".")[0]


def joining(port: int) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": f"{HOST}:{port}",
    }


def test_a_broker_of_kafka_joins_a_controller_of_ours(kafka: ApacheKafka, tmp_path: Path) -> None:
    controller_port, port, their_port = free_ports(3)
    cluster = CLUSTER_ID, release_of(kafka)
    with ExitStack() as nodes:
        for number, own_port in ((CONTROLLER, controller_port), (OURS, port)):
            ports = controller_port, own_port
            ours = nodes.enter_context(
                OurNode.started(tmp_path / str(number), number, cluster, ports)
            )
        listeners = {"listeners": f"PLAINTEXT://{HOST}:{their_port}"}
        options = BrokerOptions(node_id=THEIRS, properties=joining(controller_port) | listeners)
        theirs = KafkaBroker(kafka, tmp_path / "theirs", options)
        theirs.cluster_id = CLUSTER_ID
        theirs.port, theirs.controller_port = their_port, controller_port
        nodes.callback(theirs.stop)
        theirs.start()
        live(Mixed(ours, theirs), theirs, OURS)


def test_a_broker_of_ours_joins_a_controller_of_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = BrokerOptions(node_id=THEIRS)
    with ExitStack() as nodes:
        theirs = nodes.enter_context(KafkaBroker.started(kafka, tmp_path / "theirs", options))
        ports = theirs.controller_port, port
        cluster = theirs.cluster_id, release_of(kafka)
        ours = nodes.enter_context(OurNode.started(tmp_path / "ours", OURS, cluster, ports))
        live(Mixed(ours, theirs), ours, THEIRS)
