"""docs/security.md, "From plaintext to TLS and logins without a pause": three nodes under load.

Each node is restarted three times with the settings of the guide's blocks. The clients see no
error, and every record that was acknowledged is read.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from moldau.client.base.file import load_settings
from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.config.properties import parse_properties
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.node_processes import free_ports
from moldau.testing import Cluster
from tests.e2e.terminal import Terminal, blocks
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]

TITLE = "## From plaintext to TLS and logins without a pause"
TOPIC = "orders"
GROUP = "billing"
NODES = (1, 2, 3)
PARTITIONS = 3
PORTS = ("9092", "9093", "9094", "9095")
PATIENCE_S = 120.0


class Guide:
    """The blocks of the guide, with the ports and paths of this machine."""

    def __init__(self, folder: Path) -> None:
        found = iter(free_ports(len(NODES) * len(PORTS)))
        self.ports = {(node, port): next(found) for node in NODES for port in PORTS}
        self._folder = folder
        self.commands = blocks(TITLE, "sh")
        first, *steps, self._client, last = blocks(TITLE, "properties")
        self._nodes = [first, *steps, last]
        self.settings: dict[int, dict[str, str]] = {node: {} for node in NODES}

    def adapted(self, text: str) -> str:
        def port_of(found: re.Match[str]) -> str:
            return f"localhost:{self.ports[int(found[1]), found[2]]}"

        text = re.sub(r"broker-(\d):(\d+)", port_of, text)
        text = text.replace("/etc/moldau/ca.pem", f"{self._folder}/secured/ca.pem")
        text = text.replace("/var/log/moldau", str(self._folder))
        return re.sub(r"broker-\d", "localhost", text)

    def client(self, user: str) -> str:
        """The file of a user."""
        text = self.adapted(self._client)
        return text.replace("alice", user)

    def changed(self, step: int, node: int) -> dict[str, str]:
        """The settings of a node after a step; the guide shows those of node 1."""
        text = self._nodes[step].replace("/etc/moldau/node.pem", f"{self._folder}/node-{node}.pem")
        text = text.replace("audit.jsonl", f"audit-{node}.jsonl")
        own = re.sub(
            r"^listeners=.*$", lambda line: line[0].replace("broker-1", f"broker-{node}"), text,
            flags=re.MULTILINE,
        )  # fmt: skip
        self.settings[node] |= {
            each.key: each.value for each in parse_properties(self.adapted(own))
        }
        return dict(self.settings[node])


class Clients:
    """A producer and a consumer that run until the block ends, and raise what they saw."""

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        self.name = name
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self._settings = dict(settings)
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(work,)) for work in (self._write, self._read)
        ]

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failures.append(error)

    def _write(self) -> None:
        with Producer(self._settings) as producer:
            while not self._ending.is_set():
                value = f"{self.name}-{len(self.acknowledged)}".encode()
                producer.send_and_wait(TOPIC, value)
                self.acknowledged.append(value)
                self._ending.wait(0.005)

    def _read(self) -> None:
        reading = {"group.id": GROUP, "auto.offset.reset": "earliest"}
        with Consumer({**self._settings, **reading}) as consumer:
            consumer.subscribe(TOPIC)
            while not self._ending.is_set():
                for part in consumer.poll(0.2):
                    self.read += [bytes(each.value or b"") for each in part.records]

    def check(self) -> None:
        assert not self._failures, self._failures

    def await_more(self) -> None:
        """Both go on."""
        before = len(self.acknowledged), len(self.read)

        def goes_on() -> bool:
            self.check()
            return len(self.acknowledged) > before[0] + 20 and len(self.read) > before[1]

        eventually(goes_on, within_s=PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        for each in self._threads:
            each.start()
        try:
            yield
            self.await_more()
        finally:
            self._ending.set()
            for each in self._threads:
                each.join()
        self.check()


def await_in_sync(settings: Mapping[str, str]) -> None:
    """All replicas of all partitions are in sync."""
    with Admin(settings) as admin:

        def is_whole() -> bool:
            return all(
                set(each.isr) == set(NODES)
                for topic in admin.list_topics(internal=True)
                for each in topic.partitions
            )

        eventually(is_whole, within_s=PATIENCE_S)


def roll(
    cluster: Cluster, guide: Guide, step: int, clients: Clients, admin: Mapping[str, str]
) -> None:
    """Restart each node with the settings of a step, while the clients go on."""
    for node in NODES:
        cluster.stop(node)
        cluster.own_settings[node] = guide.changed(step, node)
        cluster.start(node)
        await_in_sync(admin)
        clients.await_more()


def test_a_cluster_goes_from_plaintext_to_sasl_ssl_under_load(tmp_path: Path) -> None:
    guide = Guide(tmp_path)
    terminal = Terminal(tmp_path, guide.adapted)
    prepare, rules = guide.commands
    servers = ",".join(f"localhost:{guide.ports[node, '9092']}" for node in NODES)
    terminal.environment["MOLDAU_BOOTSTRAP"] = servers
    open_to_all = {"bootstrap.servers": servers}
    settings = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    cluster = Cluster(directory=str(tmp_path / "cluster"), settings=settings)
    for node in NODES:
        cluster.own_settings[node] = guide.changed(0, node)
    with cluster:
        terminal.do(prepare)
        with Admin(open_to_all) as client:
            client.create_topics([NewTopic(TOPIC, PARTITIONS, 3), NewTopic("payroll", 1, 3)])
        for user in ("alice", "admin"):
            (tmp_path / f"{user}.properties").write_text(guide.client(user))
        alice, admin = (
            load_settings(str(tmp_path / f"{user}.properties")) for user in ("alice", "admin")
        )
        old, new = Clients("old", open_to_all), Clients("new", alice)
        with ExitStack() as stack:
            with old.running():
                old.await_more()
                roll(cluster, guide, 1, old, open_to_all)
                roll(cluster, guide, 2, old, open_to_all)
                stack.enter_context(new.running())
                eventually(lambda: new.acknowledged, within_s=PATIENCE_S)
            terminal.do(rules)
            roll(cluster, guide, 3, new, admin)
        sent = {*old.acknowledged, *new.acknowledged}
        assert len(sent) == len(old.acknowledged) + len(new.acknowledged)
        assert not sent - {*old.read, *new.read, *left_in_group(alice)}, "nothing is lost"
        check_closed(guide, alice)


def left_in_group(alice: Mapping[str, str]) -> list[bytes]:
    """The records that the group has not read yet."""
    found: list[bytes] = []
    with Consumer({**alice, "group.id": GROUP, "auto.offset.reset": "none"}) as consumer:
        consumer.subscribe(TOPIC)

        def is_at_end() -> bool:
            for part in consumer.poll(0.5):
                found.extend(bytes(each.value or b"") for each in part.records)
            mine = consumer.assignment
            ends = consumer.end_offsets(mine)
            return len(mine) == PARTITIONS and all(
                (consumer.position(each) or 0) >= end for each, end in ends.items()
            )

        eventually(is_at_end, within_s=PATIENCE_S)
    return found


def check_closed(guide: Guide, alice: Mapping[str, str]) -> None:
    """No listener is left that is open to all, and a missing right counts."""
    for (_, port), own in guide.ports.items():
        with socket.socket() as probe:
            is_open = probe.connect_ex(("localhost", own)) == 0
        assert is_open == (port in ("9094", "9095")), port
    with Producer(alice) as producer, pytest.raises(KafkaError) as caught:
        producer.send_and_wait("payroll", b"mine")
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
