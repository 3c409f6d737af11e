"""Listeners with TLS and logins: a whole broker, and our client, in one process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.client import Admin, Producer, Resource, ResourceType
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.connection import Untrusted
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from tests.broker.server.secure_houses import (
    CANARY,
    PLAIN_MODULE,
    SCRAM_MODULE,
    Secured,
    replicated,
    round_trip,
    run,
    secured,
    two_nodes,
)
from tests.link.certificates import Authority, written
from tests.runtime.arena import HOST, REAL_ARENAS, play


def tls_and_logins(folder: Path) -> dict[str, str]:
    """Settings of two nodes: SASL_SSL at the brokers, and a certificate at the controller."""
    jaas = f'{PLAIN_MODULE} required username="alice" password="{CANARY}" user_alice="{CANARY}";'
    return {
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
    }


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
    ("listener", "protocol", "told", "told_client"),
    [
        ("SSL", "PLAINTEXT", "does not speak TLS", "a listener with TLS wants"),
        ("SASL_SSL", "SASL_PLAINTEXT", "does not speak TLS", "a listener with TLS wants"),
        ("PLAINTEXT", "SSL", "TLS on a listener without TLS", "does this listener speak TLS"),
        (
            "SASL_PLAINTEXT",
            "SASL_SSL",
            "TLS on a listener without TLS",
            "does this listener speak TLS",
        ),
        ("SASL_PLAINTEXT", "PLAINTEXT", "a request before the login", "connection ended"),
    ],
)
def test_the_wrong_protocol_is_told_on_both_sides(
    listener: str, protocol: str, told: str, told_client: str, tmp_path: Path
) -> None:
    async def scenario(at: Secured) -> None:
        given = {**at.login(protocol), "start.timeout.ms": "1"}
        address = at.broker.endpoints[listener]
        with pytest.raises(KafkaError, match=told_client):
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
        ("listener.name.sasl_ssl.plain.connections.max.reauth.ms", "soon", "connections.max.rea"),
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
        given = tls_and_logins(tmp_path)
        async with two_nodes(runtime, "SASL_SSL", given) as two:
            at = Secured(two.houses[0], two.broker, tmp_path, authority)
            await replicated(at.login("SASL_SSL", "PLAIN"))
        for each in two.houses:
            assert not [line for line in each.lines if CANARY in line]

    play("asyncio", main)
