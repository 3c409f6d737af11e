"""A secured node with kcat, Java's console tools and librdkafka: TLS, SCRAM and access rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.broker.main.init_command import command as init
from moldau.runtime.node_processes import free_ports
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.broker.main.test_init import run
from tests.conformance.kcat import kcat
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real


class SecuredNode:
    """A broker's process, and the files of its clients."""

    def __init__(self, folder: Path, process: BrokerProcess) -> None:
        self.folder = folder
        self.address = f"{process.host}:{process.port}"
        self.java = str(folder / "admin.properties")

    @property
    def librdkafka(self) -> dict[str, str]:
        lines = (self.folder / "kcat.conf").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def kcat(self, *arguments: str, text: bytes = b"") -> bytes:
        given = [f"{name}={value}" for name, value in self.librdkafka.items()]
        words = [word for each in given[1:] for word in ("-X", each)]
        return kcat(self.address, *words, *arguments, text=text)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    home = tmp_path_factory.mktemp("secured")
    folder = home / "node"
    (port,) = free_ports(1)
    run(init, str(folder), "--secure", "--port", str(port))
    with broker_process(home, "--config", str(folder / "server.properties")) as process:
        yield SecuredNode(folder, process)


def test_kcat_writes_and_reads(secured: SecuredNode) -> None:
    secured.kcat("-P", "-t", "kcat", text=b"hello\n")
    assert secured.kcat("-C", "-q", "-e", "-t", "kcat") == b"hello\n"


def test_java_s_console_tools_write_and_read(secured: SecuredNode) -> None:
    kafka = fetch_or_skip()
    there = ("--bootstrap-server", secured.address, "--topic", "java")
    config = ("--command-config", secured.java)
    producer = "org.apache.kafka.tools.ConsoleProducer"
    run_tool(kafka, producer, *there, *config, input_text="from java\n")
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    until = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    assert "from java" in run_tool(kafka, consumer, *there, *config, *until)
    assert secured.kcat("-C", "-q", "-e", "-t", "java") == b"from java\n"


def test_librdkafka_of_today_logs_in(secured: SecuredNode) -> None:
    confluent = pytest.importorskip("confluent_kafka.admin")
    admin = confluent.AdminClient(secured.librdkafka)
    assert admin.list_topics(timeout=30).brokers
