"""A secured node with kcat, Java's console tools and librdkafka: TLS, SCRAM and access rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.broker.main.init_command import command as init
from moldau.client import NewTopic, load_settings
from moldau.client.admin.security import Acl
from moldau.client.admin.sync.security import SecurityAdmin
from moldau.client.sync import Admin, Producer
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.operations.acls import operation_of, principal_of, resource_of
from moldau.protocol.acl_operations import AclPermission
from moldau.protocol.scram import SCRAM_MECHANISMS
from moldau.runtime.node_processes import free_ports
from tests.broker.main.one_command import run
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.conformance.kcat import kcat
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = pytest.mark.real

PASSWORD = "the operator's password"  # noqa: S105 - of a node that lives for a test


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


def test_an_operator_ends_a_transaction_with_java_s_tool(secured: SecuredNode) -> None:
    """Who may alter the cluster may write the marker that ends a transaction."""
    kafka = fetch_or_skip()
    settings = dict(load_settings(secured.java))
    operator = secured.folder / "operator.properties"
    login = LoginModule("SCRAM", {"username": "operator", "password": PASSWORD})
    given = {
        **settings,
        "bootstrap.servers": secured.address,
        "sasl.jaas.config": write_jaas(login),
    }
    operator.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    with Admin(settings) as admin:
        admin.create_topic(NewTopic("open", 1))
        security = SecurityAdmin(admin)
        security.set_password("operator", PASSWORD, mechanism=SCRAM_MECHANISMS["SCRAM-SHA-512"])
        rules = [
            Acl(principal_of("operator"), operation_of(operation), name, kind, pattern,
                AclPermission.ALLOW, "*")
            for operation, resource in (("ALTER", "cluster"), ("READ", "topic:open"))
            for kind, name, pattern in [resource_of(resource)]
        ]  # fmt: skip
        assert not any(security.create_acls(rules).values())
    with Producer({**settings, "transactional.id": "hangs"}) as producer:
        producer.begin_transaction()
        producer.send("open", b"value")
        producer.flush()
        told = run_tool(
            kafka, "org.apache.kafka.tools.TransactionsCommand",
            "--bootstrap-server", secured.address, "--command-config", str(operator),
            "abort", "--topic", "open", "--partition", "0", "--start-offset", "0",
        )  # fmt: skip
        assert "Exception" not in told
        found = run_tool(
            kafka, "org.apache.kafka.tools.TransactionsCommand",
            "--bootstrap-server", secured.address, "--command-config", str(operator),
            "describe-producers", "--topic", "open", "--partition", "0",
        )  # fmt: skip
        assert found.splitlines()[1].split()[-1] == "None"


def test_librdkafka_of_today_logs_in(secured: SecuredNode) -> None:
    confluent = pytest.importorskip("confluent_kafka.admin")
    admin = confluent.AdminClient(secured.librdkafka)
    assert admin.list_topics(timeout=30).brokers
