"""Listeners with TLS and logins: a whole broker, and our client, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from moldau.broker.server import Broker
from moldau.broker.server.storage import format_if_empty
from moldau.client import Admin, Consumer, NewTopic, Producer, Resource, ResourceType
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import format_uuid, new_uuid
from moldau.link.connection import Untrusted
from moldau.link.sasl import LoginRefused
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from moldau.protocol.scram import ScramMechanism, salted_password
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from tests.broker.server.houses import House, house
from tests.broker.server.wire import wired
from tests.link.certificates import Authority, written
from tests.runtime.arena import HOST, REAL_ARENAS, play

CANARY = "canary-password"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = (ScramMechanism.SHA_256, ScramMechanism.SHA_512)
SALT = b"0123456789abcdef0123456789abcdef"

Scenario = Callable[["Secured"], Awaitable[None]]


class SecureHouse(House):
    """A house whose settings have names with underscores in them."""

    def __init__(self, runtime: Runtime, directory: str, given: dict[str, str]) -> None:
        super().__init__(runtime, directory)
        self.given = given
        self.cluster_id: str | None = None

    def settings(self, **given: str) -> Settings:
        settings = super().settings(**given).overlaid(overrides(dict(self.given)))
        files, random = self.runtime.files, self.runtime.random
        now_ms = self.runtime.clock.wall_ms()
        format_if_empty(files, settings, random, now_ms, self.host, self.cluster_id)
        return settings


class Secured:
    """A broker with a listener of each protocol, and the files of its clients."""

    def __init__(self, at: House, broker: Broker, folder: Path, authority: Authority) -> None:
        self.house = at
        self.broker = broker
        self.folder = folder
        self.authority = authority

    def given(self, protocol: str, **others: str) -> dict[str, str]:
        """Settings of a client of a listener that is named after its protocol."""
        address = self.broker.endpoints[protocol]
        given = {"bootstrap.servers": f"{HOST}:{address.port}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            given["ssl.truststore.location"] = str(self.folder / "ca.pem")
        return given | {name.replace("_", "."): value for name, value in others.items()}

    def login(self, protocol: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        return self.given(
            protocol, sasl_mechanism=mechanism, sasl_username="alice", sasl_password=CANARY
        )

    async def add_alice(self) -> None:
        await self.add_user("alice", CANARY)

    async def add_user(
        self, user: str, password: str, mechanisms: Sequence[ScramMechanism] = SCRAM
    ) -> None:
        """Add a user's SCRAM credentials, as an admin does."""
        for mechanism in mechanisms:
            change = ScramCredentialUpsertion(
                name=user,
                mechanism=mechanism,
                iterations=4096,
                salt=SALT,
                salted_password=salted_password(mechanism, password, SALT, 4096),
            )
            request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[change])
            async with wired(self.house.runtime, *self.broker.endpoints["PLAINTEXT"]) as wire:
                answer = await wire.ask(request, AlterUserScramCredentialsResponse)
            assert answer.results[0].error_code == ErrorCode.NONE


def settings_of(folder: Path) -> dict[str, str]:
    names = ("SASL_SSL", "SASL_PLAINTEXT", "SSL", "PLAINTEXT")
    bound = ",".join(f"{each}://{HOST}:0" for each in names)
    jaas = f'{PLAIN_MODULE} required user_alice="{CANARY}";'
    return {
        "listeners": f"{bound},CONTROLLER://localhost:9093",
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in names)
        + ",CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U, DEFAULT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "connection.failed.authentication.delay.ms": "1",
    }


def node_settings(folder: Path, node_id: int, ports: list[int]) -> dict[str, str]:
    """One of two nodes: the first is the controller too."""
    is_first = node_id == 1
    listeners = f"SASL_SSL://{HOST}:0"
    jaas = f'{PLAIN_MODULE} required username="alice" password="{CANARY}" user_alice="{CANARY}";'
    return {
        "process.roles": "broker,controller" if is_first else "broker",
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "listeners": listeners + (f",CONTROLLER://localhost:{ports[0]}" if is_first else ""),
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "controller.quorum.bootstrap.servers": "",
        "controller.quorum.voters": f"1@localhost:{ports[0]}",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
    }


@asynccontextmanager
async def secured(runtime: Runtime, folder: Path, **others: str) -> AsyncIterator[Secured]:
    authority = Authority()
    written(folder, "ca.pem", authority.certificate_pem)
    written(folder, "node.pem", authority.issue("localhost", HOST).pem)
    written(folder, "alice.pem", authority.issue("alice").pem)
    dotted = {name if "." in name else name.replace("_", "."): others[name] for name in others}
    given = settings_of(folder) | dotted
    async with house(runtime) as plain:
        at = SecureHouse(runtime, plain.directory, given)
        held = Secured(at, await at.start(), folder, authority)
        try:
            yield held
        finally:
            await held.broker.aclose()


def run(folder: Path, scenario: Scenario, arena: str = "asyncio", **others: str) -> list[str]:
    """Play the scenario, and return the broker's log."""
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        async with secured(runtime, folder, **others) as at:
            await scenario(at)
            lines.extend(at.house.lines)

    play(arena, main)
    return lines


async def round_trip(given: dict[str, str], topic: str) -> None:
    """Write a record, and read it."""
    async with Producer(given) as producer:
        await producer.send_and_wait(topic, b"value")
    reading = {**given, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"}
    async with Consumer(reading) as consumer:
        await consumer.subscribe([topic])
        async for record in consumer:
            assert record.value == b"value"
            break


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_clients_write_and_read_through_each_listener(arena: str, tmp_path: Path) -> None:
    async def scenario(at: Secured) -> None:
        await at.add_alice()
        alice = {"ssl_keystore_location": str(tmp_path / "alice.pem")}
        await round_trip(at.login("SASL_SSL"), "t1")
        await round_trip(at.login("SASL_PLAINTEXT", "SCRAM-SHA-512"), "t2")
        await round_trip(at.login("SASL_SSL", "PLAIN"), "t3")
        await round_trip(at.given("SSL", **alice), "t4")
        jaas = f'{SCRAM_MODULE} required username="alice" password="{CANARY}";'
        given = at.given("SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
        async with Admin(given) as admin:
            assert {"t1", "t2", "t3", "t4"} <= {each.name for each in await admin.list_topics()}

    lines = run(tmp_path, scenario, arena)
    assert not [each for each in lines if CANARY in each]


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_fails_at_once_and_is_not_told(
    protocol: str, mechanism: str, user: str, tmp_path: Path
) -> None:
    async def scenario(at: Secured) -> None:
        await at.add_alice()
        wrong = {"sasl.username": user, "sasl.password": "canary-wrong"}
        with pytest.raises(LoginRefused) as caught:
            async with Admin({**at.login(protocol, mechanism), **wrong}):
                pass
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "canary" not in f"{caught.value!r} {caught.value}"

    lines = run(tmp_path, scenario)
    (told,) = [each for each in lines if "login failed" in each]
    assert f"mechanism={mechanism}" in told
    assert f"user={user}" in told
    assert not [each for each in lines if "canary" in each]


def test_a_broker_that_is_not_trusted_is_not_talked_to(tmp_path: Path) -> None:
    """A certificate of another authority, one for another host, and one that has expired."""
    written(tmp_path, "other.pem", Authority("another").certificate_pem)

    async def scenario(at: Secured) -> None:
        await at.add_alice()
        given = at.login("SASL_SSL")
        await refused({**given, "ssl.truststore.location": str(tmp_path / "other.pem")})
        written(tmp_path, "node.pem", at.authority.issue("elsewhere").pem)
        await until_refused(given, "elsewhere")
        unchecked = {**given, "ssl.endpoint.identification.algorithm": ""}
        async with Admin(unchecked) as admin:
            await admin.list_topics()
        written(tmp_path, "node.pem", at.authority.issue("localhost", HOST, days=(-9, -1)).pem)
        await until_refused(given, "expired")

    run(tmp_path, scenario)


async def refused(given: dict[str, str]) -> str:
    """The reason why the client does not trust the broker."""
    with pytest.raises(Untrusted) as caught:
        async with Admin(given):
            pass
    return str(caught.value)


async def until_refused(given: dict[str, str], why: str) -> None:
    """The broker looks at its files at most once a second."""
    async with asyncio.timeout(30):
        while True:
            try:
                async with Admin(given):
                    pass
            except Untrusted as error:
                if why in str(error) or why == "elsewhere":
                    return


def test_a_client_without_a_certificate_is_refused_where_one_is_required(tmp_path: Path) -> None:
    async def scenario(at: Secured) -> None:
        with pytest.raises(KafkaError):
            async with Admin(at.given("SSL", start_timeout_ms="1")):
                pass

    lines = run(tmp_path, scenario)
    assert [each for each in lines if "peer did not return a certificate" in each]


@pytest.mark.parametrize(
    ("listener", "protocol", "told"),
    [
        ("SSL", "PLAINTEXT", "does not speak TLS"),
        ("SASL_SSL", "SASL_PLAINTEXT", "does not speak TLS"),
        ("PLAINTEXT", "SSL", "TLS on a listener without TLS"),
        ("SASL_PLAINTEXT", "SASL_SSL", "TLS on a listener without TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "a request before the login"),
    ],
)
def test_the_wrong_protocol_is_told_on_both_sides(
    listener: str, protocol: str, told: str, tmp_path: Path
) -> None:
    async def scenario(at: Secured) -> None:
        given = {**at.login(protocol), "start.timeout.ms": "1"}
        address = at.broker.endpoints[listener]
        with pytest.raises(KafkaError):
            async with Admin({**given, "bootstrap.servers": f"{HOST}:{address.port}"}):
                pass

    lines = run(tmp_path, scenario)
    assert [each for each in lines if told in each and f"listener={listener}" in each]


def test_a_login_is_renewed_on_the_live_connection(tmp_path: Path) -> None:
    """The broker ends a login after half a second; a client goes on for three of them."""

    async def scenario(at: Secured) -> None:
        await at.add_alice()
        given = {**at.login("SASL_SSL"), "retries": "0", "enable.idempotence": "false"}
        async with Producer(given) as producer:
            await producer.send_and_wait("t", b"first")
            connections = len(at.broker._sockets._reactor.connections)  # type: ignore[union-attr]
            clock = at.house.runtime.clock
            until = clock.monotonic() + 1.5
            while clock.monotonic() < until:
                await producer.send_and_wait("t", b"value")
            assert len(at.broker._sockets._reactor.connections) == connections  # type: ignore[union-attr]

    lines = run(tmp_path, scenario, connections_max_reauth_ms="500")
    assert not [each for each in lines if "expired" in each]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ssl.keystore.location", "missing.pem", "No such file"),
        ("ssl.keystore.location", "", "private key"),
        ("sasl.enabled.mechanisms", "DIGEST-MD5", "not offered"),
        ("listener.name.sasl_ssl.plain.sasl.jaas.config", "x", "semicolon"),
        ("ssl.enabled.protocols", "TLSv1.1", "TLSv1.2"),
        ("listener.name.ssl.ssl.principal.mapping.rules", "RULE:x", "rule"),
    ],
)
def test_a_listener_that_is_not_whole_is_not_opened(
    name: str, value: str, why: str, tmp_path: Path
) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match=why) as caught:
            async with secured(runtime, tmp_path, **{name: value}):
                pass
        assert "listener=" in str(caught.value)
        assert CANARY not in str(caught.value)

    play("asyncio", main)


def test_no_secret_is_described(tmp_path: Path) -> None:
    """DescribeConfigs has the names of secrets, and none of their values."""

    async def scenario(at: Secured) -> None:
        async with Admin(at.given("PLAINTEXT")) as admin:
            described = await admin.describe_configs(Resource(ResourceType.BROKER, "1"))
        assert {"ssl.key.password", "ssl.keystore.location"} <= {each.name for each in described}
        assert not [each for each in described if CANARY in repr(each)]

    run(tmp_path, scenario, ssl_key_password=CANARY)


def test_brokers_and_controllers_talk_over_tls_with_logins(tmp_path: Path) -> None:
    """Replicas follow over SASL_SSL, and a controller takes only nodes with a certificate."""

    async def main(runtime: Runtime) -> None:
        authority = Authority()
        written(tmp_path, "ca.pem", authority.certificate_pem)
        written(tmp_path, "node.pem", authority.issue("localhost", HOST).pem)
        (tmp_path / "alice.pem").write_text(authority.issue("alice").pem)
        async with house(runtime) as one, house(runtime) as two:
            ports = free_ports(1)
            first = SecureHouse(runtime, one.directory, node_settings(tmp_path, 1, ports))
            second = SecureHouse(runtime, two.directory, node_settings(tmp_path, 2, ports))
            first.cluster_id = second.cluster_id = format_uuid(new_uuid(runtime.random))
            async with AsyncExitStack() as running:
                broker = await first.start()
                running.push_async_callback(broker.aclose)
                follower = await second.start()
                running.push_async_callback(follower.aclose)
                given = Secured(first, broker, tmp_path, authority).login("SASL_SSL", "PLAIN")
                async with Admin(given) as admin, Producer(given, acks="all") as producer:
                    topic = NewTopic("t", 1, 2, configs={"min.insync.replicas": "2"})
                    await admin.create_topic(topic)
                    await producer.send_and_wait("t", b"value")
            for lines in (first.lines, second.lines):
                assert not [each for each in lines if CANARY in each]

    play("asyncio", main)
