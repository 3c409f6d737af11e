"""Delegation tokens with Java's tool and clients, and our answers beside Apache Kafka's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.main.init_command import command as init
from moldau.client import Admin
from moldau.client.admin.delegation_tokens import DelegationToken, TokenAdmin
from moldau.config.properties import parse_properties
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import CONTROLLER
from moldau.protocol.messages import response_class
from moldau.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.runtime.node_processes import free_ports
from tests.broker.main.one_command import run
from tests.broker.main.processes import broker_process, finished
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker, run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
KEY = "delegation.token.secret.key=a key"


def test_java_s_tool_makes_a_token_that_java_s_clients_log_in_with(tmp_path: Path) -> None:
    kafka = fetch_or_skip()
    folder = tmp_path / "node"
    (port,) = free_ports(1)
    run(init, str(folder), "--secure", "--port", str(port))
    admin = folder / "admin.properties"
    config = ("--config", str(folder / "server.properties"), "--set", KEY)
    with broker_process(tmp_path, *config) as process:
        at = ("--bootstrap-server", f"{process.host}:{process.port}")

        def tool(*words: str) -> str:
            return run_tool(kafka, TOOL, *at, "--command-config", str(admin), *words)

        told = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
        found = re.search(r"^(\S{22})\s+(\S+==)\s+User:admin\s", told, re.MULTILINE)
        assert found, told
        token_id, password = found.groups()
        described = tool("--describe", "--owner-principal", "User:bob")
        assert "Total number of tokens : 1" in described
        assert f"{token_id} " in described
        renewed = tool("--renew", "--hmac", password, "--renew-time-period", "-1")
        assert "Completed renew operation" in renewed

        settings = {each.key: each.value for each in parse_properties(admin.read_text())}
        settings["sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{token_id}" password="{password}" tokenauth="true";'
        )
        by_token = tmp_path / "token.properties"
        by_token.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        there = (*at, "--topic", "java", "--command-config", str(by_token))
        run_tool(kafka, "org.apache.kafka.tools.ConsoleProducer", *there, input_text="hello\n")
        until = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "60000")
        consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        assert "hello" in run_tool(kafka, consumer, *there, *until)
        asyncio.run(log_in_by_token(settings))

        ended = tool("--expire", "--hmac", password, "--expiry-time-period", "-1")
        assert "Completed expire operation" in ended
        with pytest.raises(KafkaError) as caught:
            asyncio.run(log_in_by_token(settings))
        assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
        _, log = process.stop()
    assert password not in log


async def log_in_by_token(settings: dict[str, str]) -> None:
    """Our client has the rights of the token's owner, and makes no token with it."""
    async with Admin(settings) as admin:
        assert "java" in {each.name for each in await admin.list_topics()}
        with pytest.raises(KafkaError) as caught:
            await TokenAdmin(admin).create()
        assert caught.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


# Our answers beside Apache Kafka's

_WAIT_S = 120
_UNKNOWN = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
USERS = ("admin", "alice", "bob", "carol")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def server_settings(key: str) -> dict[str, str]:
    users = " ".join(f'user_{each}="{each}"' for each in USERS)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "LOGIN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": f"{_PLAIN} {users};",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.max.lifetime.ms": "500000",
        "delegation.token.expiry.time.ms": "100000",
    }
    return settings | ({"delegation.token.secret.key": key} if key else {})


@contextmanager
def kafka_node(folder: Path, key: str) -> Iterator[int]:
    """Yield the port of Apache Kafka's listener with logins."""
    kafka = fetch_or_skip()
    plain, login, controller = free_ports(3)
    properties = server_settings(key) | {
        "listeners": f"PLAINTEXT://{HOST}:{plain},LOGIN://{HOST}:{login},"
        f"CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},LOGIN://{HOST}:{login}",
    }
    broker = KafkaBroker(kafka, folder, BrokerOptions(properties=properties))
    broker.port, broker.controller_port = plain, controller
    broker.start()
    try:
        yield login
    finally:
        broker.stop()


@contextmanager
def our_node(folder: Path, key: str) -> Iterator[int]:
    plain, login, controller = free_ports(3)
    properties = server_settings(key) | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{plain},LOGIN://{HOST}:{login},"
        f"CONTROLLER://{HOST}:{controller}",
        "log.dirs": str(folder / "data"),
    }
    folder.mkdir()
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    code, _, err = finished("storage", "format", "--config", str(path), home=folder)
    assert code == 0, err
    with broker_process(folder, "--config", str(path)):
        yield login


def user_settings(port: int, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
    }


def token_settings(port: int, token: DelegationToken, mechanism: str) -> dict[str, str]:
    return {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": token.jaas_config(),
    }


class Asking:
    """Asks one broker as several users, and keeps the codes of the answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers: dict[str, object] = {}

    async def ask(
        self, label: str, admin: Admin, request: Any, late: ErrorCode | None = None
    ) -> Any:
        """Ask again while the answer is `late`: Kafka's controller finds tokens in a cache that
        follows its decisions."""
        key = type(request).spec.key
        node = 1 if key == 41 else CONTROLLER
        async with asyncio.timeout(_WAIT_S):
            while True:
                answer: Any = await admin._requests.ask_once(request, response_class(key), node)
                if answer.error_code != late:
                    break
                await paused()
        noted: list[object] = [ErrorCode(answer.error_code).name]
        if key == 38:
            noted += [answer.principal_name, answer.token_requester_principal_name]
            noted += [answer.max_timestamp_ms - answer.issue_timestamp_ms, len(answer.hmac)]
            noted += [answer.expiry_timestamp_ms - answer.issue_timestamp_ms]
            noted += [answer.issue_timestamp_ms if answer.error_code else 0]
        elif key == 41:
            noted += sorted(
                f"{each.principal_name} {each.token_requester_principal_name} "
                f"{[one.principal_name for one in each.renewers]}"
                for each in answer.tokens
            )
        elif answer.error_code:
            noted += [answer.expiry_timestamp_ms]
        self.answers[label] = noted
        return answer


def create(
    *renewers: str, owner: str = "", lifetime_ms: int = -1, kind: str = "User"
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=each) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    named = [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners
    ]
    return DescribeDelegationTokenRequest(owners=named)


EVERYTHING = DescribeDelegationTokenRequest(owners=None)


async def with_tokens(port: int) -> dict[str, object]:
    """Ask a broker that has tokens."""
    asking = Asking(port)
    alice, bob, carol, admin = (
        Admin(user_settings(port, each)) for each in ("alice", "bob", "carol", "admin")
    )
    async with alice, bob, carol, admin:
        made = await asking.ask("create", alice, create("bob"))
        await asking.ask("short life", alice, create(lifetime_ms=10_000))
        await asking.ask("long life", alice, create(lifetime_ms=10**12))
        await asking.ask("renewer is a group", alice, create("x", kind="Group"))
        await asking.ask("for another", alice, create(owner="carol"))
        await asking.ask("for another, group", alice, create("x", owner="carol", kind="Group"))
        await asking.ask("for oneself by name", alice, create(owner="alice"))
        others = await asking.ask("for another as admin", admin, create(owner="carol"))
        await visible(asking, alice=alice, bob=bob, carol=carol, admin=admin)
        for name, client in (("owner", alice), ("renewer", bob), ("stranger", carol)):
            renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)
            await asking.ask(f"renew as {name}", client, renewal, _UNKNOWN)
            end = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=60_000)
            await asking.ask(f"expire as {name}", client, end)
        renewal = RenewDelegationTokenRequest(hmac=others.hmac, renew_period_ms=-1)
        await asking.ask("renew as requester", admin, renewal, _UNKNOWN)
        unknown = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
        await asking.ask("renew unknown", alice, unknown)
        await by_token(asking, made)
        end = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        await asking.ask("expire unknown as stranger", carol, end)
        await asking.ask("end", bob, end)
        await asking.ask("end again", bob, end, ErrorCode.NONE)
    return asking.answers


async def until_seen(client: Admin, count: int) -> None:
    """Wait until the broker knows what its controller decided."""
    admin = TokenAdmin(client)
    async with asyncio.timeout(_WAIT_S):
        while len(await admin.describe()) != count:
            await paused()


async def paused() -> None:
    """Let a broker go on."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)


async def visible(asking: Asking, **clients: Admin) -> None:
    """Ask what each user sees."""
    await until_seen(clients["admin"], 5)
    for name, client in clients.items():
        await asking.ask(f"describe as {name}", client, EVERYTHING)
        await asking.ask(f"describe carol's as {name}", client, describe("carol"))
    await asking.ask("describe nobody's", clients["alice"], describe())


async def by_token(asking: Asking, made: Any) -> None:
    token = DelegationToken(made.token_id, bytes(made.hmac), "", "", (), 0, 0, 0)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        async with Admin(token_settings(asking.port, token, mechanism)) as client:
            for name, request in (
                ("create", create()),
                ("describe", EVERYTHING),
                ("renew", RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)),
                ("expire", ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)),
            ):
                await asking.ask(f"{name} by token, {mechanism}", client, request)


async def without_tokens(port: int) -> dict[str, object]:
    """Ask a broker that has no key."""
    asking = Asking(port)
    async with Admin(user_settings(port, "alice")) as alice:
        await asking.ask("create", alice, create())
        await asking.ask("group", alice, create("x", kind="Group"))
        await asking.ask("for another", alice, create(owner="carol"))
        await asking.ask("describe", alice, EVERYTHING)
        renewal = RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
        await asking.ask("renew", alice, renewal)
        end = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
        await asking.ask("expire", alice, end)
    return asking.answers


@pytest.mark.parametrize("key", ["a key", ""])
def test_answers_about_tokens_are_kafka_s(tmp_path: Path, key: str) -> None:
    ask = with_tokens if key else without_tokens
    with kafka_node(tmp_path / "kafka", key) as port:
        theirs = asyncio.run(ask(port))
    with our_node(tmp_path / "ours", key) as port:
        ours = asyncio.run(ask(port))
    assert ours == theirs
