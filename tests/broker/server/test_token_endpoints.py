"""Logins with tokens of Keycloak's and Entra's endpoints: a whole broker, and our client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from moldau.client import Admin, Producer, TokenEndpoint
from moldau.errors.codes import KafkaError
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from tests.broker.server.houses import house
from tests.broker.server.secure_houses import SecureHouse
from tests.link.token_provider import CLIENT, SCOPE, SECRET, TokenProvider, token_provider
from tests.runtime.arena import HOST, play

LIFE_S = 8
ID = "sasl.oauthbearer.client.credentials.client.id"
KEY = "sasl.oauthbearer.client.credentials.client.secret"


@pytest.fixture(scope="module")
def provider() -> Iterator[TokenProvider]:
    with token_provider() as found:
        yield found


@asynccontextmanager
async def broker_of(
    runtime: Runtime, provider: str, issuer: str
) -> AsyncIterator[tuple[dict[str, str], SecureHouse]]:
    """A broker that takes the provider's tokens: the settings of its clients, and its house."""
    given = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:0,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "moldau.oauth.provider": provider,
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "1",
    }
    async with house(runtime) as plain:
        at = SecureHouse(runtime, plain.directory, given)
        broker = await at.start()
        try:
            yield (
                {
                    "bootstrap.servers": f"{HOST}:{broker.endpoints['SASL_PLAINTEXT'].port}",
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "OAUTHBEARER",
                },
                at,
            )
        finally:
            await broker.aclose()


def test_a_client_of_keycloak_goes_on_for_longer_than_its_first_token(
    provider: TokenProvider,
) -> None:
    """With one line of the broker's settings, the issuer, and its id and secret."""
    provider.life_s, provider.fails, begun = LIFE_S, 2, len(provider.tokens)

    async def main(runtime: Runtime) -> None:
        async with broker_of(runtime, "keycloak", provider.keycloak) as (given, at):
            given |= {"oauth": "keycloak", "sasl.oauthbearer.expected.issuer": provider.keycloak}
            early = {"sasl.login.refresh.window.factor": "0.5"}  # the machine may be busy
            async with Producer({**given, **early, ID: CLIENT, KEY: SECRET}) as producer:
                until = runtime.clock.monotonic() + LIFE_S + 1
                while runtime.clock.monotonic() < until:
                    await producer.send_and_wait("t", b"value")
            with pytest.raises(LoginRefused, match="unauthorized_client") as caught:
                async with Admin({**given, ID: CLIENT, KEY: "wrong-canary"}):
                    pass
            assert "canary" not in str(caught.value)
        lines = "\n".join(at.lines)
        assert "login has expired" not in lines
        assert not any(each in lines for each in (SECRET, *provider.tokens))

    play("asyncio", main)
    assert len(provider.tokens) - begun >= 2
    assert provider.forms[0]["grant_type"] == "client_credentials"


def test_a_client_of_entra_names_a_scope(provider: TokenProvider) -> None:
    provider.life_s = 300
    issuer = provider.entra

    def endpoint(secret: str = SECRET, scope: str | None = SCOPE) -> TokenEndpoint:
        return TokenEndpoint.of_entra(issuer, client_id=CLIENT, client_secret=secret, scope=scope)

    async def main(runtime: Runtime) -> None:
        async with broker_of(runtime, "entra", issuer) as (given, _):
            async with Producer(given, oauth=endpoint()) as producer:
                await producer.send_and_wait("t", b"value")
            for wrong, why in (
                (endpoint(secret="wrong"), "AADSTS7000215"),  # noqa: S106 - of the tests
                (endpoint(scope="api://other"), "AADSTS70011"),
                (endpoint(scope=None), "give sasl.oauthbearer.scope"),
            ):
                with pytest.raises(LoginRefused, match=why):
                    async with Admin(given, oauth=wrong):
                        pass

    play("asyncio", main)


def test_a_provider_that_is_away_is_named(provider: TokenProvider) -> None:
    async def main(runtime: Runtime) -> None:
        async with broker_of(runtime, "keycloak", provider.keycloak) as (given, _):
            given |= {
                ID: CLIENT,
                KEY: SECRET,
                "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
                "sasl.login.retry.backoff.max.ms": "50",
                "start.timeout.ms": "300",
            }
            with pytest.raises(KafkaError, match=r"http://127\.0\.0\.1:1/token") as caught:
                async with Admin(given) as admin:
                    await admin.list_topics()
            assert not isinstance(caught.value, LoginRefused)

    play("asyncio", main)
