"""TLS, logins and access rules beside Apache Kafka: what each costs the broker.

Both brokers have one listener of each kind, the same certificate (ECDSA P-256), and the same
clients. TLS is a share of the same broker's plaintext throughput, so that the speed of the broker
itself does not count. The clients share two cores with the broker, and encrypt as much as it does.

Handshakes and logins are counted by a second of the broker's CPU, so the client's own work does not
count. A handshake is a whole one, without a ticket.
"""

from __future__ import annotations

import atexit
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer

from bench.broker import THEIRS, Twofold, scaled
from bench.broker_load import create_topic, delete_topic, rdkafka_produce, read_all, read_first
from bench.harness import Case, Goal, Table
from bench.peer_brokers import HOST, BrokerProcess, KafkaPeer, MoldauBroker, cpu_seconds
from bench.produce import TOPIC as REQUESTED
from bench.produce import Load, frames_of, send_all
from moldau.client.sync import Acl, AclOperation, Admin, ScramMechanism, SecurityAdmin
from moldau.link.login.sasl import Derivation, scram
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.runtime.node_processes import free_ports
from tests.link.certificates import Authority, written
from tests.peers.apache_kafka import fetch

OURS: Final = "moldau"
PLAIN, TLS, LOGIN = "PLAINTEXT", "SSL", "SASL_PLAINTEXT"
SIZE_BYTES: Final = 1024
RECORDS: Final = 150_000
READ_TIMES: Final = 4
HANDSHAKES: Final = 300
LOGINS: Final = 200
RULES: Final = 10_000
PRODUCES: Final = 10_000
LOAD: Final = Load(1, 100, 5)
USER, PASSWORD = "alice", "bench-password"  # of a broker that ends with the bench


class Secured:
    """A broker with a port for each kind of listener."""

    def __init__(self, broker: BrokerProcess, ports: dict[str, int], folder: Path) -> None:
        self.broker = broker
        self.name = broker.name
        self.ports = ports
        self._folder = folder

    def client(self, protocol: str) -> dict[str, Any]:
        """Return settings of librdkafka."""
        found = {"bootstrap.servers": f"{HOST}:{self.ports[protocol]}"}
        if protocol == TLS:
            found["security.protocol"] = "ssl"
            found["ssl.ca.location"] = f"{self._folder}/ca.pem"
        return found

    def cpu(self) -> float:
        return cpu_seconds(self.broker.pid)


def properties(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    kinds = (PLAIN, TLS, LOGIN)
    bound = ",".join(f"{each}://{HOST}:{ports[each]}" for each in kinds)
    return {
        "listeners": f"{bound},CONTROLLER://{HOST}:{ports['CONTROLLER']}",
        "advertised.listeners": bound,
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in kinds)
        + ",CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": PLAIN,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/node.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


class Bench:
    """Both brokers, and one of ours with rules; started when the first case runs."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            authority = Authority()
            written(self.folder, "ca.pem", authority.certificate_pem)
            written(self.folder, "node.pem", authority.issue("localhost", HOST).pem)
            self.brokers = {
                name: self._started(stack, name, make)
                for name, make in ((OURS, self._ours), (THEIRS, self._theirs))
            }
            self._stack = stack.pop_all()
            atexit.register(self._stack.close)
        for each in self.brokers.values():
            with Admin(bootstrap_servers=f"{HOST}:{each.ports[PLAIN]}") as admin:
                SecurityAdmin(admin).set_password(
                    USER, PASSWORD, mechanism=ScramMechanism.SHA_256, iterations=4096
                )
            create_topic(each.broker, "filled")
            _produce(each, PLAIN, "filled")

    def _started(
        self, stack: ExitStack, name: str, make: Callable[[Path, dict[str, int]], BrokerProcess]
    ) -> Secured:
        ports = dict(zip((PLAIN, "CONTROLLER", TLS, LOGIN), free_ports(4), strict=True))
        folder = self.folder / name
        folder.mkdir()
        broker = make(folder, ports)
        stack.callback(broker.stop)
        broker.start()
        return Secured(broker, ports, self.folder)

    def _ours(self, folder: Path, ports: dict[str, int]) -> BrokerProcess:
        broker = MoldauBroker(folder, properties(self.folder, ports))
        broker.port = ports[PLAIN]
        return broker

    def _theirs(self, folder: Path, ports: dict[str, int]) -> BrokerProcess:
        peer = KafkaPeer(fetch(), folder, properties(self.folder, ports))
        peer.broker.port, peer.broker.controller_port = ports[PLAIN], ports["CONTROLLER"]
        return peer

    @cache  # noqa: B019 - one bench a process
    def ruled(self, *, has_rules: bool) -> MoldauBroker:
        """Return a broker of ours whose producer is judged by many rules, or by none."""
        given = {"authorizer.class.name": "standard"} if has_rules else {}
        extra = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
        folder = self.folder / f"ruled-{has_rules}"
        folder.mkdir()
        broker = MoldauBroker(folder, {**given, **(extra if has_rules else {})})
        self._stack.callback(broker.stop)
        broker.start()
        create_topic(broker, REQUESTED)
        if has_rules:
            with Admin(bootstrap_servers=f"{HOST}:{broker.port}") as admin:
                rules = [
                    Acl(f"User:user-{number}", AclOperation.WRITE, f"topic-{number % 500}")
                    for number in range(RULES)
                ]
                rules.append(Acl("User:ANONYMOUS", AclOperation.WRITE, REQUESTED))
                SecurityAdmin(admin).create_acls(rules)
        send_all(broker.port, frames_of(LOAD), LOAD.depth, PRODUCES)
        return broker


@cache
def bench() -> Bench:
    return Bench()


def _produce(at: Secured, protocol: str, topic: str) -> float:
    settings = {"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.kbytes": 200_000}
    client = {**settings, **at.client(protocol)}
    return rdkafka_produce(at.broker, topic, scaled(RECORDS) // 6 * 6, bytes(SIZE_BYTES), client)


def produced(at: Secured, protocol: str) -> float:
    """Return records a second into a new topic."""
    topic = f"written-{time.monotonic_ns()}"
    create_topic(at.broker, topic)
    try:
        return _produce(at, protocol, topic)
    finally:
        delete_topic(at.broker, topic)


def consumed(at: Secured, protocol: str) -> float:
    """Return records a second from the page cache."""
    settings = {
        "group.id": "bench",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 262_144,
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 1,
        "fetch.message.max.bytes": 8 << 20,
        "fetch.wait.max.ms": 5,
    }
    consumer = Consumer({**settings, **at.client(protocol)})
    count = scaled(RECORDS) // 6 * 6
    try:
        whole = read_first(consumer, "filled")
        start = time.perf_counter()
        read_all(consumer, whole, count, READ_TIMES)
        return count * READ_TIMES / (time.perf_counter() - start)
    finally:
        consumer.close()


def share_and_cost(name: str, work: Callable[[Secured, str], float], times: int) -> Any:
    """Return TLS throughput by plaintext throughput, and CPU seconds a GB over TLS."""
    at = bench().brokers[name]
    plain = work(at, PLAIN)
    before = at.cpu()
    encrypted = work(at, TLS)
    spent = at.cpu() - before
    return encrypted / plain, spent / (scaled(RECORDS) // 6 * 6 * SIZE_BYTES * times / 1e9)


def handshakes(name: str) -> float:
    """Return whole handshakes by a second of the broker's CPU."""
    at = bench().brokers[name]
    context = ssl.create_default_context(cafile=str(bench().folder / "ca.pem"))

    def shake(count: int) -> None:
        for _ in range(count):
            with (
                socket.create_connection((HOST, at.ports[TLS])) as plain,
                context.wrap_socket(plain, server_hostname=HOST),
            ):
                pass

    shake(HANDSHAKES // 3)
    before = at.cpu()
    shake(HANDSHAKES)
    return HANDSHAKES / (at.cpu() - before)


def login_ms(name: str) -> float:
    """Return the milliseconds of the broker's CPU for a connection that logs in by SCRAM."""
    at = bench().brokers[name]
    for _ in range(LOGINS // 4):
        _log_in(at.ports[LOGIN])
    before = at.cpu()
    for _ in range(LOGINS):
        _log_in(at.ports[LOGIN])
    return (at.cpu() - before) / LOGINS * 1000


def _log_in(port: int) -> None:
    client = ClientConnection("bench-login")
    exchange = scram(ScramMechanism.SHA_256, USER, PASSWORD, _nonce())
    with closing(socket.create_connection((HOST, port))) as at:

        def ask(request: Any, version: int) -> Any:
            at.sendall(b"".join(map(bytes, client.send(request, version))))
            return client.receive(memoryview(_frame(at))).response

        ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        given = next(exchange)
        while True:
            if isinstance(given, Derivation):
                given = exchange.send(_derived(given))
                continue
            assert isinstance(given, bytes)
            answer = ask(SaslAuthenticateRequest(auth_bytes=given), 2)
            assert isinstance(answer, SaslAuthenticateResponse)
            assert not answer.error_code, answer.error_message
            try:
                given = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                return


@cache
def _derived(key: Derivation) -> bytes:
    """Derive a key once: it takes the client longer than all of the login takes the broker."""
    return key.result()


def _nonce() -> str:
    return secrets.token_hex(18)


def _frame(at: socket.socket) -> bytes:
    def exactly(size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = at.recv(size - len(found))
            assert piece, "the broker has closed the connection"
            found += piece
        return found

    return exactly(int.from_bytes(exactly(4), "big"))


def produce_us(*, has_rules: bool) -> float:
    """Return microseconds of the broker's CPU for a produce request of one record."""
    broker = bench().ruled(has_rules=has_rules)
    frames = frames_of(LOAD)
    before = cpu_seconds(broker.pid)
    send_all(broker.port, frames, LOAD.depth, PRODUCES)
    return (cpu_seconds(broker.pid) - before) / PRODUCES * 1e6


def tables() -> Iterator[Table]:
    for title, work, times in (("produce", produced, 1), ("consume", consumed, READ_TIMES)):
        found = {
            name: Twofold(partial(share_and_cost, name, work, times)) for name in (THEIRS, OURS)
        }
        yield Table(
            f"{title} 1 KB over TLS, librdkafka: throughput",
            "of the same broker's plaintext throughput",
            [Case(name, each.first) for name, each in found.items()],
            [Goal(OURS, THEIRS, ratio_at_least=1.0)],
        )
        yield Table(
            f"{title} 1 KB over TLS, librdkafka: broker CPU",
            "seconds a GB of values",
            [Case(name, each.second) for name, each in found.items()],
            [Goal(OURS, THEIRS, ratio_at_most=1.0)],
            higher_is_better=False,
        )
    yield Table(
        "TLS handshakes",
        "by a second of the broker's CPU",
        [Case(name, partial(handshakes, name)) for name in (THEIRS, OURS)],
        [Goal(OURS, at_least=300)],
    )
    yield Table(
        "a connection that logs in by SCRAM-SHA-256",
        "ms of the broker's CPU",
        [Case(name, partial(login_ms, name)) for name in (THEIRS, OURS)],
        [Goal(OURS, at_most=5)],
        higher_is_better=False,
    )
    bare, ruled = "without an authorizer", f"with {RULES:,} rules"
    yield Table(
        "a produce request of one record, moldau",
        "us of the broker's CPU",
        [
            Case(bare, partial(produce_us, has_rules=False)),
            Case(ruled, partial(produce_us, has_rules=True)),
        ],
        [Goal(ruled, bare, ratio_at_most=1.05)],
        higher_is_better=False,
    )
