"""Requests for tokens over real connections: encryption, chunked answers, assertions."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client import Admin
from moldau.link.login.endpoint_tokens import EndpointTokens
from moldau.link.login.named_endpoint import endpoint_of
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from tests.link.encrypted_provider import encrypted_provider
from tests.link.token_provider import CLIENT, token_provider
from tests.runtime.arena import play

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def tokens(runtime: Runtime, **given: str) -> EndpointTokens:
    """The tokens of a client with these settings; underscores for dots."""
    settings = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.retry.backoff.max.ms": "0",
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    return EndpointTokens(endpoint_of(Admin(settings).settings), runtime, "a:1")


def test_a_provider_s_certificate_is_one_of_the_login_module_s_trust_store(tmp_path: Path) -> None:
    trusts = f'ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem"'

    async def main(runtime: Runtime) -> None:
        async with encrypted_provider(runtime, tmp_path) as url:
            login = f'{MODULE} required clientId="a" clientSecret="b"'
            with pytest.raises(LoginRefused, match=r"is not trusted: .*ssl\.truststore\.location"):
                await tokens(
                    runtime, sasl_oauthbearer_token_endpoint_url=url, sasl_jaas_config=f"{login};"
                )()
            found = await tokens(
                runtime,
                sasl_oauthbearer_token_endpoint_url=url,
                sasl_jaas_config=f"{login} {trusts};",
            )()
            assert found.value == "a-token"

    play("asyncio", main)


def test_a_provider_takes_an_assertion_in_place_of_a_secret(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    with token_provider() as provider:
        key.write_bytes(provider.client_key.as_pem(private=True))

        async def main(runtime: Runtime) -> None:
            given = {
                "oauth": "keycloak",
                "sasl_oauthbearer_expected_issuer": provider.keycloak,
                "sasl_oauthbearer_assertion_algorithm": "ES256",
                "sasl_oauthbearer_assertion_private_key_file": str(key),
                "sasl_oauthbearer_assertion_claim_iss": CLIENT,
            }
            sub = "sasl_oauthbearer_assertion_claim_sub"
            found = await tokens(runtime, **given, **{sub: CLIENT})()
            assert provider.tokens == [found.value]
            with pytest.raises(LoginRefused, match="unauthorized_client"):
                await tokens(runtime, **given, **{sub: "another"})()

        play("asyncio", main)
    assert not any("secret" in form for form in provider.forms)
