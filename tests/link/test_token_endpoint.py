"""Tokens of an OAuth provider: what is asked, by which settings, and what an answer means."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from moldau.client import Admin, Producer, TokenEndpoint
from moldau.config import BadSettings
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.assertions import Assertion
from moldau.link.login.endpoint_tokens import EndpointTokens
from moldau.link.login.named_endpoint import endpoint_of
from moldau.link.login.sasl import LoginRefused
from moldau.link.login.token_endpoint import TokenTiming, issued_token, token_form
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import HttpAnswer, NoAnswer
from tests.runtime.arena import play, simulate

CANARY = "canary/s3cret:+ x"
URL = "https://id.example.com/token"
LOGIN = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
KAFKA = "org.apache.kafka.common.security.oauthbearer."
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a setting
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a setting
ISSUER = "sasl.oauthbearer.expected.issuer"
CREDENTIALS = {ID: "orders", SECRET: CANARY}
JAAS = f'{KAFKA}OAuthBearerLoginModule required clientId="orders" clientSecret="{CANARY}"'


def named(given: dict[str, str]) -> TokenEndpoint:
    """The endpoint of a client with these settings."""
    return endpoint_of(Admin({**LOGIN, **given}).settings)


def basic(endpoint: TokenEndpoint) -> str:
    kind, _, pair = token_form(endpoint, None, None).headers["Authorization"].partition(" ")
    assert kind == "Basic"
    return b64decode(pair).decode()


def fields(endpoint: TokenEndpoint, assertion: str | None = None) -> dict[str, str]:
    body = token_form(endpoint, endpoint.scope, assertion).body.decode()
    return {name: value for name, (value,) in parse_qs(body, strict_parsing=True).items()}


def test_a_secret_is_shown_as_it_is_or_encoded_as_rfc_6749_wants_it() -> None:
    plain = TokenEndpoint(URL, client_id="or ders", client_secret=CANARY)
    assert basic(plain) == f"or ders:{CANARY}"
    keycloak = TokenEndpoint.keycloak(
        "https://id.example.com/", "sh op", client_id="or ders", client_secret=CANARY
    )
    assert basic(keycloak) == "or+ders:canary%2Fs3cret%3A%2B+x"
    assert keycloak.url == "https://id.example.com/realms/sh%20op/protocol/openid-connect/token"
    assert fields(plain) == {"grant_type": "client_credentials"}


def test_entra_s_scope_is_given_or_that_of_event_hubs() -> None:
    entra = TokenEndpoint.entra("contoso.example", client_id="orders", client_secret=CANARY)
    assert entra.url == "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token"
    hubs = "shop.servicebus.windows.net"
    assert entra.scope_for(f"{hubs}:9093") == f"https://{hubs}/.default"
    with pytest.raises(LoginRefused, match=r"sasl\.oauthbearer\.scope"):
        entra.scope_for("broker-1:9092")
    given = TokenEndpoint.entra("x", client_id="a", client_secret=CANARY, scope="api://x/.default")
    assert given.scope_for("broker-1:9092") == "api://x/.default"


BY_NAMES: dict[str, dict[str, str]] = {
    "today's names": {TOKEN_URL: URL, **CREDENTIALS, "sasl.oauthbearer.scope": "write read"},
    "the login module's options": {
        TOKEN_URL: URL,
        "sasl.jaas.config": f'{JAAS} scope="write read";',
        "sasl.login.callback.handler.class": f"{KAFKA}secured.OAuthBearerLoginCallbackHandler",
    },
    "librdkafka's names": {
        TOKEN_URL: URL,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "orders",
        "sasl.oauthbearer.client.secret": CANARY,
        "sasl.oauthbearer.scope": "write read",
    },
}


@pytest.mark.parametrize("case", BY_NAMES)
def test_the_names_of_kafka_and_of_librdkafka_mean_the_same(case: str) -> None:
    found = named(BY_NAMES[case])
    assert (found.url, found.client_id, found.scope) == (URL, "orders", "write read")
    assert basic(found) == f"orders:{CANARY}"
    assert fields(found) == {"grant_type": "client_credentials", "scope": "write read"}


def test_a_preset_s_endpoint_follows_from_the_issuer() -> None:
    keycloak = named({"oauth": "Keycloak", ISSUER: "https://id/realms/shop", **CREDENTIALS})
    assert keycloak.url == "https://id/realms/shop/protocol/openid-connect/token"
    entra = named({"oauth": "entra", ISSUER: "https://login/tenant/v2.0", **CREDENTIALS})
    assert entra.url == "https://login/tenant/oauth2/v2.0/token"
    assert keycloak.encodes_header
    assert entra.is_entra
    own = named({"oauth": "entra", TOKEN_URL: URL, **CREDENTIALS})
    assert (own.url, own.is_entra, own.encodes_header) == (URL, True, True)


def test_times_extensions_and_encryption_are_settings_too() -> None:
    found = named(
        {
            TOKEN_URL: URL,
            "sasl.jaas.config": f'{JAAS} extension_logicalCluster="lkc-1" ssl.protocol="TLS" '
            'ssl.truststore.location="/etc/moldau/id.pem" ssl.truststore.type="PEM";',
            "sasl.oauthbearer.extensions": "pool=p-1,other=a=b",
            "sasl.oauthbearer.header.urlencode": "true",
            "sasl.login.connect.timeout.ms": "500",
            "sasl.login.read.timeout.ms": "700",
            "sasl.login.retry.backoff.ms": "10",
            "sasl.login.retry.backoff.max.ms": "90",
            "sasl.login.refresh.window.factor": "0.5",
        }
    )
    assert found.extensions == {"logicalCluster": "lkc-1", "pool": "p-1", "other": "a=b"}
    assert found.timing == TokenTiming(0.5, 0.7, Backoff(10, 90), 0.5)
    assert found.encodes_header
    assert found.tls is not None
    assert found.tls.paths == ("/etc/moldau/id.pem",)


FAULTS: dict[str, tuple[dict[str, str], str]] = {
    "no secret": ({TOKEN_URL: URL, ID: "orders"}, r"client\.secret"),
    "no endpoint": (CREDENTIALS, r"token\.endpoint\.url"),
    "no issuer": ({"oauth": "keycloak", **CREDENTIALS}, r"expected\.issuer"),
    "another preset": ({"oauth": "okta", **CREDENTIALS}, "one of keycloak, entra, msk-iam"),
    "plain http": ({TOKEN_URL: "http://id.example.com/t", **CREDENTIALS}, "give https"),
    "a file": ({TOKEN_URL: "file:///etc/passwd", **CREDENTIALS}, "not read from a file"),
    "no host": ({TOKEN_URL: "https://a:canary@[id", **CREDENTIALS}, "no URL"),
    "no URL": ({TOKEN_URL: "id.example.com", **CREDENTIALS}, "https://HOST"),
    "two presets": ({"oauth": "msk-iam", TOKEN_URL: URL}, "remove it"),
    "another module": (
        {TOKEN_URL: URL, "sasl.jaas.config": JAAS.replace("oauthbearer.OAuthBearer", "plain.Plain")
         + ";"},
        "one of PLAIN",
    ),
    "an option of another product": (
        {TOKEN_URL: URL, "sasl.jaas.config": f'{JAAS} oauth.client.id="x";'},
        r"oauth\.client\.id",
    ),
    "a forged extension": (
        {TOKEN_URL: URL, "sasl.jaas.config": f'{JAAS} extension_auth="x";'},
        "letters alone",
    ),
    "no key of assertions": (
        {TOKEN_URL: URL, ID: "orders", "sasl.oauthbearer.assertion.claim.iss": "x"},
        r"private\.key\.file",
    ),
    "a retriever of another kind": (
        {TOKEN_URL: URL, "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}FileJwtRetriever"},
        "DefaultJwtRetriever",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_settings_that_cannot_work_are_refused_before_anything_connects(case: str) -> None:
    given, why = FAULTS[case]
    with pytest.raises(BadSettings, match=why) as caught:
        Admin({**LOGIN, **given})
    assert "canary" not in str(caught.value)


def test_two_sources_of_tokens_are_refused() -> None:
    async def bring() -> str:
        return "token"

    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match="two sources"):
            await Producer({**LOGIN, TOKEN_URL: URL, **CREDENTIALS}, oauth=bring).start()

    play("asyncio", main)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b", ID: "x"}, ID),
        ({TOKEN_URL: URL, **CREDENTIALS, ISSUER: "https://id"}, ISSUER),
        (
            {TOKEN_URL: URL, **CREDENTIALS, "sasl.login.callback.handler.class": "org.x.Y"},
            "sasl.login.callback.handler.class",
        ),
        (
            {TOKEN_URL: URL, **CREDENTIALS, "sasl.oauthbearer.jwks.endpoint.url": "https://id"},
            "sasl.oauthbearer.jwks.endpoint.url",
        ),
    ],
)
def test_what_changes_nothing_is_told(
    given: dict[str, str], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(runtime: Runtime) -> None:
        client = Admin({**LOGIN, **given, "default.api.timeout.ms": "1"}, runtime=runtime)
        try:
            await client.start()
        except KafkaError:
            pass  # there is no broker
        finally:
            await client.aclose()

    simulate(main)
    assert any(f" {told} has no effect" in each.getMessage() for each in caplog.records)


def test_no_secret_is_shown() -> None:
    endpoint = TokenEndpoint(URL, client_id="orders", client_secret=CANARY)
    form = token_form(endpoint, None, None)
    issued = issued_token(200, b'{"access_token": "canary"}', URL)
    assert "canary" not in f"{endpoint} {endpoint!r} {form!r} {form} {issued!r} {issued}"


# Answers


def answered(status: int, said: Any) -> Any:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return issued_token(status, body, f"{URL}?key=canary")


def test_the_life_of_a_token_is_a_span_of_the_provider_s_clock() -> None:
    claims = urlsafe_b64encode(b'{"iat": 1000, "exp": 1300}').decode().rstrip("=")
    assert answered(200, {"access_token": "a", "expires_in": 300}).lifetime_s == 300
    assert answered(200, {"access_token": "a", "expires_in": "3599"}).lifetime_s == 3599
    assert answered(201, {"access_token": f"x.{claims}.y"}).lifetime_s == 300
    assert answered(200, {"access_token": "opaque", "expires_in": True}).lifetime_s is None
    assert answered(200, {"access_token": " a ", "expires_in": -1}) == ("a", 0.0)


REFUSALS: dict[str, tuple[int, Any, str]] = {
    "Keycloak": (
        401,
        {"error": "unauthorized_client", "error_description": "Invalid client"},
        "unauthorized_client: Invalid client",
    ),
    "Entra": (
        400,
        {"error": "invalid_scope", "error_description": "AADSTS70011: x\r\nTrace ID: 1"},
        "invalid_scope: AADSTS70011: x Trace ID: 1",
    ),
    "a page": (404, b"<html>canary</html>", "gives no token"),
    "a redirect": (302, b"", "gives no token"),
    "no token": (200, {"token": "canary"}, "no access_token"),
    "no object": (200, [1], "no access_token"),
    "a token of lines": (200, {"access_token": "a\x01b"}, "can be sent"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_has_the_provider_s_reason_and_no_more(case: str) -> None:
    status, said, why = REFUSALS[case]
    with pytest.raises(LoginRefused, match=why) as caught:
        answered(status, said)
    assert not caught.value.retriable
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_provider_that_is_busy_may_be_asked_again(status: int) -> None:
    with pytest.raises(KafkaError) as caught:
        answered(status, b"busy")
    assert caught.value.retriable


# Assertions


def test_an_assertion_is_signed_and_shown_instead_of_a_secret(tmp_path: Path) -> None:
    key = ECKey.generate_key("P-256")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    (tmp_path / "more.json").write_text('{"header": {"kid": "k1"}, "payload": {"x": 1}}')
    found = named(
        {
            TOKEN_URL: URL,
            ID: "orders",
            "sasl.oauthbearer.assertion.claim.iss": "orders",
            "sasl.oauthbearer.assertion.claim.sub": "orders",
            "sasl.oauthbearer.assertion.claim.aud": URL,
            "sasl.oauthbearer.assertion.claim.jti.include": "true",
            "sasl.oauthbearer.assertion.algorithm": "es256",
            "sasl.oauthbearer.assertion.private.key.file": str(tmp_path / "key.pem"),
            "sasl.oauthbearer.assertion.template.file": str(tmp_path / "more.json"),
        }
    )
    assert found.assertion is not None
    text = found.assertion.text(1_800_000_000_000, "an-id")
    signed = jwt.decode(text, key, algorithms=["ES256"])
    now_s = 1_800_000_000
    assert signed.claims == {
        "iss": "orders",
        "sub": "orders",
        "aud": URL,
        "x": 1,
        "jti": "an-id",
        "iat": now_s,
        "exp": now_s + 300,
        "nbf": now_s - 60,
    }
    assert signed.header == {"alg": "ES256", "typ": "JWT", "kid": "k1"}
    form = token_form(found, None, text)
    assert "Authorization" not in form.headers
    sent = fields(found, text)
    assert sent["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert (sent["client_assertion"], sent["client_id"]) == (text, "orders")


def test_an_assertion_may_be_the_grant_itself(tmp_path: Path) -> None:
    (tmp_path / "a.jwt").write_text("aa.bb.cc\n")
    found = named(
        {
            TOKEN_URL: URL,
            "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}JwtBearerJwtRetriever",
            "sasl.oauthbearer.assertion.file": str(tmp_path / "a.jwt"),
            "sasl.oauthbearer.scope": "write",
        }
    )
    assert found.assertion is not None
    assert fields(found, found.assertion.text(0, "")) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": "aa.bb.cc",
        "scope": "write",
    }


def test_only_a_signed_token_leaves_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("root:x:0:0:canary")
    for assertion in (
        Assertion(file=str(path)),
        Assertion(key_file=str(path)),
        Assertion(key_file=str(tmp_path / "none")),
        Assertion(key_file=str(path), algorithm="ES256"),
    ):
        with pytest.raises(ConfigError) as caught:
            assertion.text(0, "")
        assert "canary" not in str(caught.value)
    rsa = RSAKey.generate_key(2048)
    path.write_bytes(rsa.as_pem(private=True))
    signed = jwt.decode(Assertion(key_file=str(path)).text(0, ""), rsa, algorithms=["RS256"])
    assert signed.claims["exp"] == 300


# Tokens of a client


class Provider:
    """Answers in turn, and with the last answer again and again; text is a token of 100 s."""

    def __init__(self, *answers: str | int | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, *request: object) -> HttpAnswer:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return HttpAnswer(answer, {}, b"{}")
        body = json.dumps({"access_token": answer, "expires_in": 100})
        return HttpAnswer(200, {}, body.encode())


def told(provider: Provider, story: Callable[[EndpointTokens], Awaitable[None]]) -> None:
    """The story of one client, in virtual time."""
    endpoint = TokenEndpoint(URL, client_id="a", client_secret=CANARY)

    async def main(runtime: Runtime) -> None:
        await story(EndpointTokens(endpoint, runtime, "a:1", provider))

    simulate(main)


def test_connections_share_a_token_until_most_of_its_life_is_over() -> None:
    provider = Provider("first", "second")

    async def story(tokens: EndpointTokens) -> None:
        found = await asyncio.gather(*(tokens() for _ in range(5)))
        assert {each.value for each in found} == {"first"}
        await asyncio.sleep(79)
        assert (await tokens()).value == "first"
        assert provider.asked == 1
        await asyncio.sleep(2)
        assert (await tokens()).value == "second"

    told(provider, story)


def test_a_provider_that_is_away_is_asked_again_and_a_valid_token_stays_in_use() -> None:
    provider = Provider(503, NoAnswer("refused"), "first", 503)

    async def story(tokens: EndpointTokens) -> None:
        assert (await tokens()).value == "first"
        await asyncio.sleep(81)
        assert (await tokens()).value == "first"
        assert provider.asked > 5, "with pauses for the time of sasl.login.retry.backoff.max.ms"
        await asyncio.sleep(20)
        with pytest.raises(KafkaError) as caught:
            await tokens()
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION

    told(provider, story)


def test_a_refused_client_is_not_asked_again() -> None:
    provider = Provider(401)

    async def story(tokens: EndpointTokens) -> None:
        with pytest.raises(LoginRefused, match="gives no token"):
            await tokens()
        assert provider.asked == 1

    told(provider, story)
