"""A host of two shards, one of them hot: partitions move by themselves while clients work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

import pytest

from moldau.client import Admin as AsyncAdmin
from moldau.client.admin.security import Acl, SecurityAdmin
from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.runtime.node_processes import free_ports_in_row
from tests.broker.exposition.scraped import Scraped
from tests.broker.main.processes import answer, moldau
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]

TOPIC: Final = "t"
PARTITIONS: Final = 4
VALUE_BYTES: Final = 500
AHEAD: Final = 20
"""Rounds of records that are on their way."""
MORE: Final = 2_000
LOW: Final = {
    "moldau.shards.balance.window.ms": "2000",
    "moldau.shards.balance.hot.percent": "8",
}
LOGIN: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_password": "secret",
}


class Node:
    """Two shards that are up."""

    def __init__(self, process: subprocess.Popen[str], log: Path, port: int) -> None:
        self.process = process
        self.log = log
        self.servers = f"localhost:{port}"
        self.metrics = f"localhost:{port + 3}"

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def lines(self, text: str) -> list[str]:
        return [each for each in self.log.read_text().splitlines() if text in each]

    def page(self) -> Scraped:
        return Scraped(answer(f"{self.metrics}/metrics")[1])


def copy_lines(source: IO[str], target: IO[str]) -> None:
    with source:
        for line in source:
            target.write(line)
            target.flush()


@contextmanager
def node(home: Path, *words: str, config: str = "", is_measured: bool = True) -> Iterator[Node]:
    """`moldau broker start --shards 2`, stopped in order at the end."""
    port = free_ports_in_row(4)
    words = ("--shards", "2", *words)
    if is_measured:
        words += ("--metrics", f"localhost:{port + 3}")
    if config:
        file = home / "server.properties"
        file.write_text(config.format(port=port, controller=port + 2, data=home / "data"))
        words += ("--config", str(file))
    else:
        words += ("--listen", str(port), "--data", str(home / "data"))
    for name, value in LOW.items():
        words += ("--set", f"{name}={value}")
    process = moldau("broker", "start", *words, home=home)
    log = home / "log"
    assert process.stdout is not None
    assert process.stderr is not None
    with log.open("w") as kept, ThreadPoolExecutor(1) as copier:
        copier.submit(copy_lines, process.stderr, kept)
        try:
            for line in process.stdout:
                if line.startswith("Ctrl-C"):
                    break
            else:
                raise AssertionError(log.read_text())
            yield Node(process, log, port)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 0
        finally:
            process.kill()
            process.wait(timeout=60)
            process.stdout.close()
    assert not [each for each in log.read_text().splitlines() if " ERROR " in each]


class Clients:
    """A producer with many records on their way, and a member of a group, until stopped."""

    def __init__(self, servers: str, **login: Any) -> None:
        self.options = {"bootstrap_servers": servers, **login}
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.read: dict[int, list[int]] = defaultdict(list)
        self._is_over = threading.Event()
        self._threads = ThreadPoolExecutor(2)
        self._running = [self._threads.submit(each) for each in (self._produce, self._consume)]

    def _produce(self) -> None:
        rounds: list[list[Any]] = []
        with Producer(**self.options, acks="all", enable_idempotence=True, linger_ms=0) as producer:
            for number in count():
                if self._is_over.is_set():
                    break
                value = str(number).encode().ljust(VALUE_BYTES)
                rounds.append([producer.send(TOPIC, value, partition=p) for p in range(PARTITIONS)])
                if len(rounds) > AHEAD:
                    self._acknowledge(rounds.pop(0))
            for each in rounds:
                self._acknowledge(each)

    def _acknowledge(self, deliveries: list[Any]) -> None:
        for partition, each in enumerate(deliveries):
            self.acknowledged[partition].append(each.result(timeout_s=120).offset)

    def _consume(self) -> None:
        with Consumer(**self.options, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_over.is_set() or not self._has_all():
                for part in consumer.poll(0.2):
                    self.read[part.partition] += [int(each.value or b"") for each in part.records]

    def _has_all(self) -> bool:
        producer = self._running[0]
        return producer.done() and all(
            len(self.read[each]) >= len(self.acknowledged[each]) for each in range(PARTITIONS)
        )

    def await_more(self) -> None:
        """Wait until each partition has taken more records, and the group has read as many."""
        wanted = {each: len(self.acknowledged[each]) + MORE for each in range(PARTITIONS)}

        def reached() -> bool:
            assert not any(each.done() for each in self._running), [
                each.exception() for each in self._running if each.done()
            ]
            return all(
                min(len(self.acknowledged[each]), len(self.read[each])) >= many
                for each, many in wanted.items()
            )

        eventually(reached, within_s=240)

    def end(self) -> None:
        """Stop, and check that each record is there, once and in order."""
        self._is_over.set()
        for each in self._running:
            each.result(timeout=120)
        self._threads.shutdown()
        for partition in range(PARTITIONS):
            many = len(self.acknowledged[partition])
            assert many >= MORE
            assert self.acknowledged[partition] == list(range(many))
            assert self.read[partition] == list(range(many))


def create(servers: str, replicas: list[int], **login: Any) -> None:
    with Admin(bootstrap_servers=servers, **login) as admin:
        assignments = dict.fromkeys(range(PARTITIONS), replicas)
        admin.create_topics([NewTopic(TOPIC, assignments=assignments)])


def partitions(servers: str, **login: Any) -> list[Any]:
    with Admin(bootstrap_servers=servers, **login) as admin:
        described = admin.describe_topics([TOPIC])[TOPIC]
    assert not isinstance(described, Exception)
    return list(described.partitions)


def leaders(servers: str, **login: Any) -> set[int]:
    return {each.leader for each in partitions(servers, **login)}


def report(what: str, page: Scraped) -> None:
    print(what, dict(page.labelled("moldau_shard_core_share", "shard")))


BEGAN: Final = "a partition moves to another one"


def test_a_hot_shard_gives_replicas_away_while_clients_work(tmp_path: Path) -> None:
    with node(tmp_path) as host:
        create(host.servers, [1])
        clients = Clients(host.servers)
        eventually(lambda: host.lines(BEGAN))
        report("before", host.page())
        eventually(lambda: leaders(host.servers) == {1, 2})
        clients.await_more()
        report("after", host.page())
        clients.end()
        assert all(len(each.replicas) == 1 for each in partitions(host.servers))
        (first, *_) = host.lines(BEGAN)
        assert "source=0 target=1 what=replica" in first
        page = host.page()
        assert page.value("moldau_shard_moves_total", what="replica") >= 1
        assert page.value("moldau_shard_moves_total", what="leader") == 0
        assert page.labelled("moldau_shard_core_share", "shard").keys() == {"0", "1"}


def test_of_two_replicas_only_the_leader_moves(tmp_path: Path) -> None:
    with node(tmp_path, is_measured=False) as host:
        create(host.servers, [1, 2])
        clients = Clients(host.servers)
        eventually(lambda: leaders(host.servers) == {1, 2}, within_s=120)
        clients.await_more()
        clients.end()
        for each in partitions(host.servers):
            assert set(each.replicas) == {1, 2}
            assert each.replicas[0] == each.leader
        assert host.lines("what=leader")
        assert not host.lines("what=replica")


def test_a_target_that_is_killed_during_a_move_loses_nothing(tmp_path: Path) -> None:
    with node(tmp_path) as host:
        create(host.servers, [1])
        target = host.children()[1]
        clients = Clients(host.servers)
        eventually(lambda: host.lines(BEGAN))
        os.kill(target, signal.SIGKILL)
        eventually(lambda: answer(f"{host.metrics}/readyz")[0] == 200)
        eventually(lambda: leaders(host.servers) == {1, 2}, within_s=120)
        clients.await_more()
        clients.end()
        assert host.children()[1] != target
        with Admin(bootstrap_servers=host.servers) as admin:
            eventually(lambda: not admin.list_partition_reassignments())


SECURED: Final = """\
process.roles=broker,controller
node.id=1
log.dirs={data}
listeners=SASL_PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:{controller}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={login}
listener.name.controller.plain.sasl.jaas.config={login}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node
offsets.topic.replication.factor=1
""".replace(
    "{login}",
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="secret" user_node="secret" user_app="secret";',
)


async def allow(servers: str, **login: Any) -> None:
    """Let the clients write, read and be members of their group."""
    rules = [
        Acl("User:app", AclOperation.READ, TOPIC),
        Acl("User:app", AclOperation.WRITE, TOPIC),
        Acl("User:app", AclOperation.READ, "g", AclResource.GROUP),
    ]
    async with AsyncAdmin(bootstrap_servers=servers, **login) as admin:
        await SecurityAdmin(admin).create_acls(rules)


def test_with_logins_and_rules_the_node_moves_by_its_own_right(tmp_path: Path) -> None:
    admin_login = {**LOGIN, "sasl_username": "node"}
    login = {**LOGIN, "sasl_username": "app"}
    cluster = ("--cluster-id", "AAAAAAAAAAAAAAAAAAAAAw")
    with node(tmp_path, *cluster, config=SECURED) as host:
        create(host.servers, [1], **admin_login)
        asyncio.run(allow(host.servers, **admin_login))
        clients = Clients(host.servers, **login)
        eventually(lambda: leaders(host.servers, **admin_login) == {1, 2}, within_s=120)
        clients.await_more()
        clients.end()
        assert host.page().value("moldau_shard_moves_total", what="replica") >= 1
