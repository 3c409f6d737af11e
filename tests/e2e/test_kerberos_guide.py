"""Kerberos by docs/security.md: its commands and files, Java's tools, and our client at Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.client import load_settings
from moldau.client.sync import Producer
from moldau.runtime.node_processes import free_ports
from tests.broker.main.processes import broker_process
from tests.e2e.terminal import Terminal, blocks
from tests.link.realm import REALM, Realm, realm
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import SMALL_JVM, TOOL_JVM, BrokerOptions, KafkaBroker, run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

TITLE = "## Kerberos"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


class Guide(NamedTuple):
    """The page's files in a realm, and a broker by them."""

    realm: Realm
    terminal: Terminal
    client: Path

    @property
    def java(self) -> str:
        return f"-Djava.security.krb5.conf={self.realm.config}"


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guide]:
    folder = tmp_path_factory.mktemp("kerberos")
    port, controller = free_ports(2)

    def adapted(text: str) -> str:
        places = {
            "broker-1.example.com": "localhost",
            "EXAMPLE.COM": REALM,
            "/etc/moldau": str(folder),
            "9092": str(port),
        }
        for page, here in places.items():
            text = text.replace(page, here)
        return text

    with realm(folder / "realm") as at:
        terminal = Terminal(folder, adapted)
        terminal.environment |= at.environment
        terminal.environment["PATH"] += ":/usr/sbin"
        terminal.do(blocks(TITLE, "sh")[0])
        server, client = map(adapted, blocks(TITLE, "properties"))
        (folder / "alice.properties").write_text(client)
        listener = f"""
            process.roles=broker,controller
            node.id=1
            listeners=SASL_PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
            listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
            security.inter.broker.protocol=SASL_PLAINTEXT
            controller.listener.names=CONTROLLER
            controller.quorum.bootstrap.servers=localhost:{controller}
            log.dirs={folder}/data
            offsets.topic.replication.factor=1
        """
        path = folder / "server.properties"
        path.write_text("\n".join(map(str.strip, listener.splitlines())) + "\n" + server)
        terminal.do("moldau storage format --config server.properties")
        with broker_process(folder, "--config", str(path), **at.environment):
            yield Guide(at, terminal, folder / "alice.properties")


def test_the_commands_of_the_page_write_and_read(guide: Guide) -> None:
    kinit, produce, consume = blocks(TITLE, "sh")[1].splitlines()
    assert guide.terminal.do(f"{kinit}\n{produce}\n{consume}") == "first\n"


def test_java_s_console_tools_write_and_read(guide: Guide) -> None:
    kafka, jvm = fetch_or_skip(), (*TOOL_JVM, guide.java)
    address = load_settings(guide.client)["bootstrap.servers"]
    there = ("--bootstrap-server", address, "--topic", "java")
    config = ("--command-config", str(guide.client))
    producer = "org.apache.kafka.tools.ConsoleProducer"
    run_tool(kafka, producer, *there, *config, input_text="from java\n", jvm=jvm)
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    until = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
    assert "from java" in run_tool(kafka, consumer, *there, *config, *until, jvm=jvm)


def test_our_client_logs_in_at_apache_kafka(
    guide: Guide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide.realm.use(monkeypatch)
    kafka = fetch_or_skip()
    keytab = guide.realm.keytab(f"kafka/127.0.0.1@{REALM}")
    broker = KafkaBroker(kafka, tmp_path, BrokerOptions(jvm=(*SMALL_JVM, guide.java)))
    plain, broker.controller_port, secured = free_ports(3)
    broker.port = plain
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secured}"
    protocols = ("PLAINTEXT", "SASL_PLAINTEXT")
    properties = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
        + ",".join(f"{each}:{each}" for each in protocols),
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": f"{MODULE} required "
        f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";',
    }
    broker.options = replace(broker.options, properties=properties)
    try:
        broker.start()
        given = {**load_settings(guide.client), "bootstrap.servers": f"127.0.0.1:{secured}"}
        with Producer(given) as producer:
            assert producer.send("t", b"value").result().offset == 0
    finally:
        broker.stop()
