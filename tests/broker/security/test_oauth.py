"""OAUTHBEARER: which tokens are let in. Each refused one is right but for one thing."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import nullcontext
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from moldau.broker.security.mechanism import LoginFailed
from moldau.broker.security.oauth import OAuthServer
from moldau.errors import ConfigError
from moldau.link.login.sasl import LoginRefused, Token, oauth_bearer
from moldau.link.login.signed_tokens import TokenCheck, TokenRefused, TokenTerms, key_set

NOW = 1_800_000_000
KEY = ECKey.generate_key("P-256", parameters={"kid": "one"})
RSA = RSAKey.generate_key(2048, parameters={"kid": "two"})
PUBLIC = json.dumps(KeySet([KEY, RSA]).as_dict(private=False))
CLAIMS: dict[str, Any] = {"iss": "https://idp", "aud": "kafka", "sub": "alice", "exp": NOW + 600}


class FixedKeys:
    """Keys that stay the same."""

    def __init__(self, keys: Any) -> None:
        self._keys = keys

    def __call__(self) -> Any:
        return self._keys

    def on_unknown(self) -> None:
        """Know no others."""


def token(
    key: Any = KEY, algorithm: str = "ES256", header: dict[str, str] | None = None, **claims: object
) -> str:
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": key.kid, **(header or {})}, said, key, [algorithm])


def server(keys: str = PUBLIC) -> OAuthServer:
    terms = TokenTerms("https://idp", ("kafka", "other"))
    found = key_set(keys)
    return OAuthServer(TokenCheck(terms, FixedKeys(found), lambda: NOW))


@pytest.mark.parametrize(
    ("issuer", "audiences", "claims", "is_right"),
    [
        (None, ("kafka",), {"iss": ""}, True),
        (None, ("kafka",), {"iss": "x"}, True),
        (None, ("kafka",), {"aud": "x"}, False),
        ("https://idp", None, {"aud": []}, True),
        ("https://idp", None, {"aud": "x"}, True),
        ("https://idp", None, {"iss": "x"}, False),
        (None, None, {"iss": "x", "aud": "x"}, True),
        (None, None, {"exp": NOW - 30}, False),
        ("", ("kafka",), {}, False),
        ("https://idp", (), {}, False),
    ],
)
def test_what_is_not_expected_is_not_checked(
    issuer: str | None,
    audiences: tuple[str, ...] | None,
    claims: dict[str, object],
    is_right: bool,
) -> None:
    terms = TokenTerms(issuer, audiences)
    check = TokenCheck(terms, FixedKeys(key_set(PUBLIC)), lambda: NOW)
    said = jwt.encode({"alg": "ES256", "kid": KEY.kid}, {**CLAIMS, **claims}, KEY, ["ES256"])
    with nullcontext() if is_right else pytest.raises(TokenRefused):
        assert check.verify(said).user == "alice"


def log_in(text: str, at: OAuthServer | None = None) -> OAuthServer:
    ours = at or server()
    exchange = oauth_bearer(Token(text, {"extension": "value"}))
    step = next(exchange)
    while True:
        assert isinstance(step, bytes)
        reply = ours.step(step)
        try:
            step = exchange.send(reply)
        except StopIteration:
            return ours


@pytest.mark.parametrize(
    "given",
    [
        token(),
        token(RSA, "RS256"),
        token(RSA, "PS256"),
        token(aud=["x", "other"]),
        token(nbf=NOW - 1, iat=NOW + 20),
        token(exp=NOW - 20),
        jwt.encode({"alg": "RS256"}, CLAIMS, RSA),
        jwt.encode({"alg": "ES256"}, CLAIMS, KEY),
    ],
)
def test_a_token_that_is_right_is_let_in(given: str) -> None:
    ours = log_in(given)
    assert (ours.is_done, ours.user) == (True, "alice")


def test_the_login_ends_with_the_token() -> None:
    assert log_in(token()).lifetime_ms == 600_000


SECRET = OctKey.import_key("secret-secret-secret-secret-secret", {"kid": "one"})
DEEP = f"{b64encode(b'[' * 2_000).decode()}.x.x"
"""A header that nests so deeply that reading it would exhaust the stack."""
STRANGER = ECKey.generate_key("P-256", parameters={"kid": "one"})


@pytest.mark.parametrize(
    "given",
    [
        token(iss="https://idp/"),
        token(iss=None),
        token(aud="kafka2"),
        token(aud=None),
        token(aud=[]),
        token(exp=NOW - 30),
        token(exp=None),
        token(exp=True),
        token(nbf=NOW + 60),
        token(iat=NOW + 60),
        token(sub=None),
        token(sub=" "),
        token(sub=7),
        token(sub="x" * 257),
        token(STRANGER),
        token(SECRET, "HS256"),
        jwt.encode({"alg": "ES256"}, CLAIMS, STRANGER),
        jwt.encode({"alg": "HS256"}, CLAIMS, SECRET),
        token().rpartition(".")[0] + ".",
        token()[:-6] + "AAAAAA",
        "e30.e30.",
        "eyJhbGciOiJub25lIn0." + token().split(".")[1] + ".",
        "not.a.token",
        DEEP,
        "x",
    ],
)
def test_a_token_with_one_thing_wrong_is_refused(given: str) -> None:
    ours = server()
    with pytest.raises((LoginFailed, LoginRefused)) as caught:
        log_in(given, ours)
    assert not ours.is_done
    assert given not in str(caught.value)


def test_a_secret_among_the_keys_signs_nothing() -> None:
    both = json.dumps({"keys": [SECRET.as_dict()]})
    with pytest.raises((LoginFailed, LoginRefused)):
        log_in(token(SECRET, "HS256"), server(both))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,a=bob,\x01auth=Bearer " + token().encode() + b"\x01\x01",
        b"n,,\x01auth=Bearer " + token().encode(),
    ],
)
def test_a_message_that_is_none_is_refused(message: bytes) -> None:
    ours = server()
    with pytest.raises(LoginFailed):
        ours.step(message)
    assert not ours.is_done


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [{"kty": "x"}]}', "x"])
def test_keys_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        key_set(text)
