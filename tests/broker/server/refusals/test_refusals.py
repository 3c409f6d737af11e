"""Every row of the table at one broker: the outcome, the line in the log, and no secret in it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from moldau.logging import gathering
from moldau.protocol.scram import ScramMechanism
from moldau.runtime import Runtime
from tests.broker.hostile.neighbour import until
from tests.broker.server.houses import house
from tests.broker.server.refusals import tokens
from tests.broker.server.refusals.clients import HOST, SECONDS, Broker
from tests.broker.server.refusals.table import LET_IN, PASSWORD, Row, right, rows
from tests.broker.server.secure_houses import PLAIN_MODULE, Secured, SecureHouse
from tests.link.certificates import Authority, Issued, written
from tests.runtime.arena import play

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="clients need addresses of their own in 127/8"
)

PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_SSL": "SASL_SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "OAUTH": "SASL_PLAINTEXT",
    "NEW": "SSL",
    "OLD": "SSL",
}
DISTRUSTED = ("EXPIRED", "EARLY", "ELSEWHERE", "NAMELESS", "STRANGER", "ITSELF")
AT_ONCE = 16
TABLE = rows()
RIGHT = right()


def certificates(folder: Path) -> None:
    """Write those of the broker's listeners, and those of its clients."""
    authority, other = Authority(), Authority("another")
    written(folder, "ca.pem", authority.certificate_pem)
    written(folder, "other-ca.crt", other.certificate_pem)
    own, itself = Authority("alice"), Authority("localhost")
    both = ("localhost", HOST)
    made: dict[str, Issued] = {
        "node": authority.issue(*both),
        "expired": authority.issue(*both, days=(-9, -1)),
        "early": authority.issue(*both, days=(5, 9)),
        "elsewhere": authority.issue("elsewhere"),
        "nameless": authority.issue(
            name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        ),
        "stranger": other.issue(*both),
        "itself": itself,
        "alice": authority.issue("alice"),
        "old": authority.issue("alice", days=(-9, -1)),
        "early-alice": authority.issue("alice", days=(5, 9)),
        "own": own,
        "other-ca": other,
    }
    for name, each in made.items():
        written(folder, f"{name}.pem", each.pem)


def settings_of(folder: Path) -> dict[str, str]:
    protocols = {**PROTOCOLS, **dict.fromkeys(DISTRUSTED, "SASL_SSL")}
    bound = ",".join(f"{each}://{HOST}:0" for each in protocols)
    listed = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    jaas = f'{PLAIN_MODULE} required user_alice="{PASSWORD}" user_admin="another-canary";'
    given = {
        "listeners": f"{bound},CONTROLLER://localhost:9093",
        "listener.security.protocol.map": f"{listed},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.new.ssl.enabled.protocols": "TLSv1.3",
        "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.old.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "listener.name.oauth.sasl.oauthbearer.expected.issuer": "https://idp",
        "listener.name.oauth.sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.secret.key": "canary-key",
    }
    for name in ("sasl_ssl", "sasl_plaintext", *map(str.lower, DISTRUSTED)):
        given[f"listener.name.{name}.plain.sasl.jaas.config"] = jaas
    for name in DISTRUSTED:
        path = folder / f"{name.lower()}.pem"
        given[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(path)
    return given


class Outcome(NamedTuple):
    """How a row ended, and the lines about its client."""

    outcome: str
    lines: list[str]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Play all rows at one broker, some at a time."""
    folder = tmp_path_factory.mktemp("refusals")
    certificates(folder)
    (folder / "keys.json").write_text(tokens.JWKS)
    found: dict[str, Outcome] = {}
    patched = pytest.MonkeyPatch()
    patched.setattr(gathering, "SOURCES_MAX", 10_000)

    async def main(runtime: Runtime) -> None:
        async with house(runtime) as plain:
            at = SecureHouse(runtime, plain.directory, settings_of(folder))
            broker = await at.start()
            try:
                reactor = broker._sockets._reactor  # type: ignore[union-attr]
                reactor._gathering._lines = 10_000
                secured = Secured(at, broker, folder, Authority())
                await secured.add_user("alice", PASSWORD)
                await secured.add_user("carol", PASSWORD, (ScramMechanism.SHA_512,))
                ports = {name: each.port for name, each in broker.endpoints.items()}
                await play_all(Broker(ports, str(folder)), at.lines, found)
            finally:
                await broker.aclose()

    with patched.context():
        try:
            play("asyncio", main)
        finally:
            patched.undo()
    return found


async def play_all(at: Broker, log: list[str], found: dict[str, Outcome]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, row: Row) -> None:
        source = f"127.1.{1 + number // 200}.{1 + number % 200}"
        outcome = "no end in time"
        with suppress(TimeoutError):
            async with limit, asyncio.timeout(SECONDS):
                outcome = await row.client.run(at, row.listener, source)
                await until(lambda: row.log is None or bool(about(source, log)))
        found[row.name] = Outcome(outcome, about(source, log))

    async with asyncio.TaskGroup() as group:
        for number, row in enumerate((*TABLE, *RIGHT)):
            group.create_task(one(number, row))


def about(source: str, log: list[str]) -> list[str]:
    return [line for line in log if f"peer={source}:" in line]


@pytest.mark.parametrize("row", TABLE, ids=[each.name for each in TABLE])
def test_a_client_that_does_one_thing_wrong(row: Row, outcomes: dict[str, Outcome]) -> None:
    found = outcomes[row.name]
    assert found.outcome == row.outcome, found
    if row.log is not None:
        (line,) = found.lines
        assert row.log in line
        assert f"listener={row.listener}" in line
        assert " WARN " in line
        assert line.count("\n") == 1
        for secret in (PASSWORD, "another-canary", "canary-key", tokens.RIGHT, tokens.SIGNATURE):
            assert secret not in line
    else:
        assert not found.lines


@pytest.mark.parametrize("row", RIGHT, ids=[each.name for each in RIGHT])
def test_a_client_that_does_nothing_wrong_is_let_in(row: Row, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[row.name] == Outcome(LET_IN, [])


def test_the_table_has_no_row_twice() -> None:
    assert len(TABLE) >= 200
    assert len({each.name for each in TABLE}) == len(TABLE)
