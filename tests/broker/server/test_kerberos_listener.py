"""A listener with Kerberos, and our client, in a realm with a real key distribution center."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moldau.broker.server import Broker
from moldau.client import Admin, Producer, TokenAdmin
from moldau.config import BadSettings
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from tests.broker.server.houses import house
from tests.broker.server.secure_houses import SecureHouse, replicated, round_trip, two_nodes
from tests.link.realm import REALM, Realm, realm, service
from tests.runtime.arena import HOST, play

pytestmark = pytest.mark.real

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
A_DAY_S = 86_400
INSTALL = r"pip install '(gssapi>=|moldau\[kerberos)"
Scenario = Callable[["Broker", SecureHouse], Awaitable[None]]


class Keys:
    """The realm, and the key tables of its principals."""

    def __init__(self, at: Realm) -> None:
        self.realm = at
        self.broker = at.keytab(service(HOST))
        self.alice = at.keytab("alice")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    with realm(tmp_path_factory.mktemp("realm")) as at:
        yield Keys(at)


@pytest.fixture(autouse=True)
def in_realm(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.realm.use(monkeypatch)


def jaas(keytab: str, principal: str) -> str:
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" ' + (
        f'principal="{principal}";'
    )


def settings_of(keys: Keys) -> dict[str, str]:
    return {
        "listeners": f"SASL_PLAINTEXT://{HOST}:0,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        JAAS: jaas(keys.broker, service(HOST)),
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.secret.key": "key",
    }


def client_of(broker: Broker, **others: str) -> dict[str, str]:
    given = {
        "bootstrap.servers": f"{HOST}:{broker.endpoints['SASL_PLAINTEXT'].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
    }
    return given | {name.replace("_", "."): value for name, value in others.items()}


@asynccontextmanager
async def started(
    runtime: Runtime, given: dict[str, str]
) -> AsyncIterator[tuple[Broker, SecureHouse]]:
    async with house(runtime) as plain:
        at = SecureHouse(runtime, plain.directory, given)
        broker = await at.start()
        try:
            yield broker, at
        finally:
            await broker.aclose()


def run(given: dict[str, str], scenario: Scenario) -> list[str]:
    """Play the scenario, and return the broker's log."""
    lines: list[str] = []

    async def main(runtime: Runtime) -> None:
        async with started(runtime, given) as (broker, at):
            await scenario(broker, at)
            lines.extend(at.lines)

    play("asyncio", main)
    return lines


async def user_at(given: dict[str, str]) -> str:
    """The user that the broker takes the client for."""
    async with Admin(given) as admin:
        return (await TokenAdmin(admin).create()).owner


def test_clients_log_in_by_key_table_by_java_s_line_and_by_kinit(keys: Keys) -> None:
    bob = keys.realm.keytab("bob/admin")
    cache = keys.realm.tickets(keys.alice, "alice")

    async def scenario(broker: Broker, at: SecureHouse) -> None:
        own = {"sasl_kerberos_keytab": keys.alice, "sasl_kerberos_principal": "alice"}
        await round_trip(client_of(broker, **own), "t")
        assert await user_at(client_of(broker, **own)) == "User:alice"
        line = jaas(bob, "bob/admin")
        assert await user_at(client_of(broker, sasl_jaas_config=line)) == "User:admin-bob"
        line = f'{MODULE} required useTicketCache=true ticketCache="{cache}" serviceName="kafka";'
        assert await user_at(client_of(broker, sasl_jaas_config=line)) == "User:alice"

    rules = "sasl.kerberos.principal.to.local.rules"
    lines = run(
        {**settings_of(keys), rules: "RULE:[2:$2-$1@$0](.*@TEST.MOLDAU)s/@.*//,DEFAULT"}, scenario
    )
    assert not [each for each in lines if "login failed" in each]


def test_a_ticket_of_the_usual_cache_needs_no_setting(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{keys.realm.tickets(keys.alice, 'alice')}")

    async def scenario(broker: Broker, at: SecureHouse) -> None:
        assert await user_at(client_of(broker)) == "User:alice"

    run(settings_of(keys), scenario)


def test_what_fails_is_told_in_one_line(keys: Keys) -> None:
    """Each client fails at once, and its error says what is wrong and of which principal."""
    old = keys.realm.keytab("carol", file="old.keytab")
    keys.realm.keytab("carol")
    expired = keys.realm.tickets(keys.alice, "alice", clock_ahead_s=2 * A_DAY_S)
    ahead = keys.realm.tickets(keys.alice, "alice", clock_ahead_s=3600)
    known = keys.realm.tickets(keys.alice, "alice", clock_ahead_s=3600, server=service(HOST))
    kinit = f"{MODULE} required useTicketCache=true ticketCache="
    own = {"sasl_kerberos_keytab": keys.alice}
    ours = {
        "wrong service": ({**own, "sasl_kerberos_service_name": "kafkaa"}, "kafkaa/127.0.0.1"),
        "wrong key": ({"sasl_kerberos_keytab": old}, "old.keytab"),
        "no file": ({"sasl_kerberos_keytab": "/no/such.keytab"}, "cannot be read"),
        "another principal": ({**own, "sasl_kerberos_principal": "dave"}, "dave"),
        "no ticket": ({}, "credentials"),
        "expired": ({"sasl_jaas_config": f'{kinit}"{expired}";'}, "run kinit again"),
        "clock": ({"sasl_jaas_config": f'{kinit}"{ahead}";'}, "set the clocks"),
    }
    told: dict[str, str] = {}

    async def scenario(broker: Broker, at: SecureHouse) -> None:
        for name, (given, _) in ours.items():
            told[name] = await refused(client_of(broker, **given))
        await refused(client_of(broker, sasl_jaas_config=f'{kinit}"{known}";'))

    lines = run(settings_of(keys), scenario)
    for name, (_, part) in ours.items():
        assert part in told[name], (name, told[name])
        assert "\n" not in told[name]
    (clock,) = [each for each in lines if "login failed" in each]
    assert "Clock skew too great" in clock
    assert "mechanism=GSSAPI" in clock


async def refused(given: dict[str, str]) -> str:
    with pytest.raises(LoginRefused) as caught:
        async with Admin(given):
            pass
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return str(caught.value)


def test_a_center_that_does_not_answer_is_asked_again(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another attempt may help, so it is no refusal."""
    away = tmp_path / "krb5.conf"
    text = keys.realm.config.read_text()
    away.write_text(text.replace(str(keys.realm.port), str(free_ports(1)[0])))

    async def scenario(broker: Broker, at: SecureHouse) -> None:
        monkeypatch.setenv("KRB5_CONFIG", str(away))
        given = client_of(broker, sasl_kerberos_keytab=keys.alice, start_timeout_ms="1")
        with pytest.raises(KafkaError, match="Cannot contact any KDC") as caught:
            async with Admin(given):
                pass
        assert not isinstance(caught.value, LoginRefused)

    run(settings_of(keys), scenario)


def test_keys_that_the_broker_has_no_more_are_told_in_its_log(keys: Keys) -> None:
    """The center has newer keys of the broker than its key table, until that is replaced."""
    at = keys.realm
    table = at.keytab(service(HOST, "rotated"))
    own = {"sasl_kerberos_keytab": keys.alice, "sasl_kerberos_service_name": "rotated"}

    async def scenario(broker: Broker, house: SecureHouse) -> None:
        newer = at.keytab(service(HOST, "rotated"), file="newer.keytab")
        await refused(client_of(broker, **own))
        os.replace(newer, table)
        assert await user_at(client_of(broker, **own)) == "User:alice"

    given = {**settings_of(keys), JAAS: jaas(table, service(HOST, "rotated"))}
    lines = run({**given, "sasl.kerberos.service.name": "rotated"}, scenario)
    (told,) = [each for each in lines if "login failed" in each]
    assert f"rotated/{HOST}@{REALM}" in told


def test_a_principal_without_a_user_is_not_let_in(keys: Keys) -> None:
    async def scenario(broker: Broker, at: SecureHouse) -> None:
        await refused(client_of(broker, sasl_kerberos_keytab=keys.alice))

    rules = "sasl.kerberos.principal.to.local.rules"
    lines = run({**settings_of(keys), rules: "RULE:[2:$1]"}, scenario)
    (told,) = [each for each in lines if "login failed" in each]
    assert f"alice@{REALM} has no user" in told


def test_a_login_is_renewed_on_the_live_connection(keys: Keys) -> None:
    async def scenario(broker: Broker, at: SecureHouse) -> None:
        given = client_of(broker, sasl_kerberos_keytab=keys.alice, retries="0")
        async with Producer(given, enable_idempotence=False) as producer:
            await producer.send_and_wait("t", b"first")
            clock = at.runtime.clock
            until = clock.monotonic() + 1.5
            while clock.monotonic() < until:
                await producer.send_and_wait("t", b"value")

    lines = run({**settings_of(keys), "connections.max.reauth.ms": "500"}, scenario)
    assert not [each for each in lines if "expired" in each or "login failed" in each]


def test_brokers_log_in_at_each_other(keys: Keys) -> None:
    async def main(runtime: Runtime) -> None:
        async with two_nodes(runtime, "SASL_PLAINTEXT", settings_of(keys)) as two:
            await replicated(client_of(two.broker, sasl_kerberos_keytab=keys.alice))

    play("asyncio", main)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (JAAS, jaas("/no/such.keytab", service(HOST)), "/no/such.keytab"),
        (JAAS, "KEYTAB nobody", "nobody"),
        (JAAS, f"{MODULE} required useTicketCache=true;", "names no key table"),
        (JAAS, "", "key table is missing"),
        ("sasl.kerberos.principal.to.local.rules", "RULE:[1:$2]", "not a rule"),
    ],
)
def test_a_listener_that_cannot_check_tickets_is_not_opened(
    name: str, value: str, why: str, keys: Keys
) -> None:
    if value.startswith("KEYTAB"):
        value = jaas(keys.broker, value.split()[1])
    given = {**settings_of(keys), name: value}
    if not value:
        del given[JAAS]

    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match=why) as caught:
            async with started(runtime, given):
                pass
        assert "listener=" in str(caught.value)

    play("asyncio", main)


def test_without_the_package_one_line_says_what_to_install(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    given = {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(BadSettings, match=INSTALL):
        Admin(given)
    with pytest.raises(ConfigError, match=INSTALL):
        run(settings_of(keys), _unreached)


async def _unreached(broker: Broker, at: SecureHouse) -> None:
    raise AssertionError("it does not start")
