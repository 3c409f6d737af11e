"""Brokers with TLS and logins for tests: one with a listener of each protocol, or two of one
cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from moldau.broker.server import Broker
from moldau.broker.server.storage import format_if_empty
from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.config import Settings, overrides
from moldau.errors.codes import ErrorCode
from moldau.ids import format_uuid, new_uuid
from moldau.logging import Level
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
from tests.runtime.arena import HOST, play

CANARY = "canary-password"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = (ScramMechanism.SHA_256, ScramMechanism.SHA_512)
SALT = b"0123456789abcdef0123456789abcdef"

Scenario = Callable[["Secured"], Awaitable[None]]


class SecureHouse(House):
    """A house with settings that have underscores in their names."""

    def __init__(self, runtime: Runtime, directory: str, given: dict[str, str]) -> None:
        super().__init__(runtime, directory)
        self.level = Level.DEBUG
        """So that tests see what each level tells of secrets."""
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


def node_of_two(node_id: int, port: int, listener: str) -> dict[str, str]:
    """Settings of one of two nodes, with one listener for clients and each other. The first one is
    the controller too."""
    is_first = node_id == 1
    controller = f",CONTROLLER://localhost:{port}" if is_first else ""
    return {
        "process.roles": "broker,controller" if is_first else "broker",
        "node.id": str(node_id),
        "broker.id": str(node_id),
        "listeners": f"{listener}://{HOST}:0{controller}",
        "inter.broker.listener.name": listener,
        "controller.quorum.bootstrap.servers": "",
        "controller.quorum.voters": f"1@localhost:{port}",
    }


class Two(NamedTuple):
    """Two nodes of one cluster that run."""

    houses: tuple[SecureHouse, SecureHouse]
    broker: Broker
    """The first one."""


@asynccontextmanager
async def two_nodes(
    runtime: Runtime, listener: str, given: Mapping[str, str]
) -> AsyncIterator[Two]:
    """Run two nodes with the same settings and one listener (`node_of_two`)."""
    (port,) = free_ports(1)
    async with house(runtime) as one, house(runtime) as other, AsyncExitStack() as running:
        cluster_id = format_uuid(new_uuid(runtime.random))
        houses, brokers = [], []
        for node_id, plain in ((1, one), (2, other)):
            settings = {**given, **node_of_two(node_id, port, listener)}
            houses.append(SecureHouse(runtime, plain.directory, settings))
            houses[-1].cluster_id = cluster_id
            brokers.append(await houses[-1].start())
            running.push_async_callback(brokers[-1].aclose)
        yield Two((houses[0], houses[1]), brokers[0])


async def replicated(client: Mapping[str, str], **others: Any) -> None:
    """Write a record that is at both nodes before it is acknowledged."""
    given = dict(client)
    async with Admin(given, **others) as admin, Producer(given, acks="all", **others) as producer:
        await admin.create_topic(NewTopic("t", 1, 2, configs={"min.insync.replicas": "2"}))
        await producer.send_and_wait("t", b"value")
