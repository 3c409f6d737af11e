"""The tokens of a node, and of a service in its process: by the same settings as any client's."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.server.security import own_client, to_brokers
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.client import Admin
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.link.login.named_endpoint import endpoint_of
from moldau.link.login.sasl import LoginRefused, Token
from moldau.runtime import Runtime
from tests.broker.server.secure_houses import CANARY
from tests.link.encrypted_provider import encrypted_provider
from tests.link.token_provider import CLIENT, token_provider
from tests.runtime.arena import play

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN = "listener.name.inside.oauthbearer.sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a setting
ASSERTION = "sasl.oauthbearer.assertion."
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a setting
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="a" password="b" user_a="b"'
)


def node(**given: str) -> Settings:
    """The settings of a node in a cluster of brokers that log in at each other with tokens."""
    base: dict[str, str | tuple[str, ...] | None] = {
        "listeners": "INSIDE://h:1,CONTROLLER://localhost:3",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": "https://idp",
    }
    return broker_settings(standalone_layer("/data"), overrides({**base, **given}))


async def token_of(settings: Settings, runtime: Runtime) -> Token:
    security = to_brokers(settings, runtime)
    assert security is not None
    assert security.credentials is not None
    source = security.credentials.tokens
    assert source is not None
    found = await source()
    assert isinstance(found, Token)
    return found


def test_a_service_in_the_process_logs_in_with_the_nodes_tokens() -> None:
    settings = node(
        **{
            TOKEN_URL: "https://idp/token",
            ID: "broker",
            "sasl.oauthbearer.client.credentials.client.secret": "another",
            f"listener.name.inside.{ID}": "inside",
            "listener.name.inside.sasl.oauthbearer.client.credentials.client.secret": CANARY,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.login.read.timeout.ms": "700",
        }
    )
    given = own_client(settings, "h:1")
    assert given == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        TOKEN_URL: "https://idp/token",
        ID: "inside",
        "sasl.oauthbearer.client.credentials.client.secret": CANARY,
        "sasl.oauthbearer.header.urlencode": "true",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.login.read.timeout.ms": "700",
    }
    endpoint = endpoint_of(Admin(given).settings)
    assert (endpoint.client_id, endpoint.scope, endpoint.timing.read_s) == ("inside", "kafka", 0.7)


def test_a_node_trusts_a_provider_by_the_login_modules_trust_store(tmp_path: Path) -> None:
    login = f'{MODULE} required clientId="a" clientSecret="b"'
    trusts = f'ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem"'

    async def main(runtime: Runtime) -> None:
        async with encrypted_provider(runtime, tmp_path) as url:
            with pytest.raises(LoginRefused, match=r"is not trusted: .*ssl\.truststore\.location"):
                await token_of(node(**{TOKEN_URL: url, LOGIN: f"{login};"}), runtime)
            found = await token_of(node(**{TOKEN_URL: url, LOGIN: f"{login} {trusts};"}), runtime)
            assert found.value == "a-token"

    play("asyncio", main)


def test_a_node_shows_an_assertion_in_place_of_a_secret(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    with token_provider() as provider:
        key.write_bytes(provider.client_key.as_pem(private=True))
        given = {
            TOKEN_URL: f"{provider.keycloak}/protocol/openid-connect/token",
            f"{ASSERTION}algorithm": "ES256",
            f"{ASSERTION}private.key.file": str(key),
            f"{ASSERTION}claim.iss": CLIENT,
            f"{ASSERTION}claim.sub": CLIENT,
        }

        async def main(runtime: Runtime) -> None:
            assert (await token_of(node(**given), runtime)).value == provider.tokens[0]

        play("asyncio", main)
    assert not any("secret" in form for form in provider.forms)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (f'{MODULE} required unsecuredLoginStringClaim_sub="a";', "a client's id and secret"),
        (f"{PLAIN};", "is one of PLAIN"),
    ],
)
def test_a_login_module_without_a_meaning_is_refused(login: str, why: str) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match=why):
            to_brokers(node(**{TOKEN_URL: "https://idp/token", LOGIN: login}), runtime)

    play("asyncio", main)


@pytest.mark.parametrize(
    ("name", "login", "kept"),
    [
        (LOGIN, f'{MODULE} required scope="a\\"b" unsecuredLoginStringClaim_sub="x";', 'a"b'),
        ("sasl.jaas.config", f"{PLAIN};", None),
        ("listener.name.inside.sasl.jaas.config", f"{PLAIN};", None),
    ],
)
def test_what_a_file_for_kafka_has_beside_the_tokens_is_passed_over(
    name: str, login: str, kept: str | None
) -> None:
    """Options of Java's test tokens, and a module of another mechanism that is for all of them."""
    own = {TOKEN_URL: "https://idp/token", ID: "broker", SECRET: CANARY, name: login}
    settings = node(**own)

    async def main(runtime: Runtime) -> None:
        assert to_brokers(settings, runtime) is not None

    play("asyncio", main)
    endpoint = endpoint_of(Admin(own_client(settings, "h:1")).settings)
    assert (endpoint.client_id, endpoint.scope) == ("broker", kept)
