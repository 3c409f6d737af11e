"""kafka-metadata-quorum and kafka-storage on a quorum of ours whose voters come and go."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.ids import format_uuid, new_uuid
from moldau.runtime.node_processes import NodeProcess, free_ports
from tests.cli.shell import Shell
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
CLUSTER_ID = "vX1bQ2cnRUyKiLqpGRz8WQ"


class Grown:
    """Controllers 101 and 102, of which the first votes at the beginning, and broker 1."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker_port, *self.ports = free_ports(3)
        self.processes: dict[int, NodeProcess] = {}
        self.files: dict[int, Path] = {}
        for number in (101, 102, 1):
            self._prepare(number)

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.broker_port}"

    def _prepare(self, number: int) -> None:
        servers = ",".join(f"localhost:{port}" for port in self.ports)
        is_broker = number == 1
        port = self.broker_port if is_broker else self.ports[number - 101]
        listener = "PLAINTEXT" if is_broker else "CONTROLLER"
        self.files[number] = path = self.directory / f"{number}.properties"
        path.write_text(
            f"process.roles={'broker' if is_broker else 'controller'}\n"
            f"node.id={number}\n"
            f"listeners={listener}://localhost:{port}\n"
            "controller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={servers}\n"
            f"log.dirs={self.directory}/{number}\n"
            "offsets.topic.replication.factor=1\n"
        )

    def format(self, number: int, *words: str) -> None:
        done = Shell("")(
            *("storage", "format", "--config", str(self.files[number])),
            *("--cluster-id", CLUSTER_ID, *words),
        )
        assert done.code == 0, done

    def start(self, number: int) -> None:
        words = ["broker", "start", "--config", str(self.files[number])]
        process = NodeProcess(words, str(self.directory / f"{number}.log"))
        self.processes[number] = process
        line = process.line(60)
        assert line is not None, (self.directory / f"{number}.log").read_text()
        assert " is up" in line

    def kill(self, number: int) -> None:
        process = self.processes.pop(number)
        process.kill()
        process.wait(20)

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            if process.wait(20) is None:
                process.kill()
                process.wait(20)


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Grown]:
    cluster = Grown(tmp_path)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


def described(kafka: ApacheKafka, grown: Grown) -> dict[str, str]:
    told = run_tool(kafka, QUORUM, "--bootstrap-server", grown.bootstrap, "describe", "--status")
    return {
        name: value.strip()
        for name, _, value in (line.partition(":") for line in told.splitlines())
    }


def ids(text: str) -> list[int]:
    return [int(each) for each in re.findall(r'"id": (\d+)', text)]


def test_kafka_metadata_quorum_adds_and_removes(kafka: ApacheKafka, grown: Grown) -> None:
    grown.format(101, "--standalone")
    grown.format(102, "--no-initial-controllers")
    grown.format(1)
    for number in (101, 102, 1):
        grown.start(number)
    before = described(kafka, grown)
    assert ids(before["CurrentVoters"]) == [101]
    at = ("--bootstrap-server", grown.bootstrap)
    told = run_tool(kafka, QUORUM, *at, "--command-config", str(grown.files[102]), "add-controller")
    assert "Added controller 102" in told
    meta = (grown.directory / "102" / "meta.properties").read_text()
    directory = re.search(r"directory.id=(\S+)", meta)
    assert directory is not None
    after = described(kafka, grown)
    assert ids(after["CurrentVoters"]) == [101, 102]
    assert directory[1] in after["CurrentVoters"]
    of_first = (grown.directory / "101" / "meta.properties").read_text()
    first = re.search(r"directory.id=(\S+)", of_first)
    assert first is not None
    told = run_tool(
        kafka,
        *(QUORUM, *at, "remove-controller", "--controller-id", "101"),
        *("--controller-directory-id", first[1]),
    )
    assert "Removed KRaft controller 101" in told or "Removed" in told
    eventually(lambda: ids(described(kafka, grown)["CurrentVoters"]) == [102], within_s=40)
    shell = Shell(grown.bootstrap)
    eventually(lambda: shell("topic", "create", "t", "--replicas", "1").code == 0)
    grown.kill(101)
    tool = (fetch_or_skip(), CLUSTER, "unregister-controller", *at)
    assert "Controller 101 is no longer registered." in run_tool(*tool, "--id", "101")
    for node, refusal in (("101", "ControllerIdNotRegistered"), ("102", "InvalidRequest")):
        with pytest.raises(RuntimeError, match=refusal):
            run_tool(*tool, "--id", node)
    again = shell("quorum", "unregister", "101")
    assert (again.code, again.out) == (1, "")
    assert again.err.startswith("moldau: CONTROLLER_ID_NOT_REGISTERED")
    grown.start(101)
    eventually(lambda: shell("quorum", "unregister", "101").out == "controller 101 is forgotten\n")


def test_initial_controllers_are_formatted_with_the_ids_that_they_were_given(
    grown: Grown,
) -> None:

    made = {number: format_uuid(new_uuid(random.Random(number))) for number in (101, 102)}
    voters = ",".join(
        f"{number}@localhost:{grown.ports[number - 101]}:{made[number]}" for number in made
    )
    for number in made:
        grown.format(number, "--initial-controllers", voters)
        meta = (grown.directory / str(number) / "meta.properties").read_text()
        assert f"directory.id={made[number]}" in meta
    refused = Shell("")(
        *("storage", "format", "--config", str(grown.files[1]), "--cluster-id", CLUSTER_ID),
        *("--initial-controllers", voters),
    )
    assert (refused.code, refused.err.count("\n")) == (2, 1)
