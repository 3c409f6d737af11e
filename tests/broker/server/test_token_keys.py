"""Keys of tokens from a URL: fetched, refreshed, and never the reason to let a token in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from moldau.broker.server.security import _known_location
from moldau.broker.settings import oauth
from moldau.config import SettingTable, overrides, rows_in
from moldau.link.login.signed_tokens import TokenCheck, TokenRefused, TokenTerms
from moldau.link.login.token_keys import KeyTiming, KeyUrl
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import check_url
from tests.broker.server.token_provider import provider
from tests.runtime.arena import play

pytestmark = pytest.mark.real

FIRST, SECOND = (ECKey.generate_key("P-256", parameters={"kid": each}) for each in ("a", "b"))
TIMING = KeyTiming(refresh_s=3600, backoff=Backoff(50, 100))


def published(*keys: ECKey) -> bytes:
    return json.dumps(KeySet(list(keys)).as_dict(private=False)).encode()


def token(key: ECKey, kid: str) -> str:
    claims = {"iss": "i", "aud": "kafka", "sub": "alice", "exp": 4_000_000_000}
    return jwt.encode({"alg": "ES256", "kid": kid}, claims, key)


async def checking(runtime: Runtime, url: str, lines: list[str]) -> Callable[[str], bool]:
    log = Loggers(runtime.clock, lines.append).get("test")
    keys = KeyUrl(url, TIMING, runtime, log)
    await keys.first()
    check = TokenCheck(TokenTerms("i", ("kafka",)), keys, lambda: runtime.clock.wall_ms() / 1000)

    def admits(text: str) -> bool:
        try:
            return check.verify(text).user == "alice"
        except TokenRefused:
            return False

    return admits


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what changes is in a thread
            await asyncio.sleep(0.01)


def test_new_keys_are_fetched_for_a_token_that_names_one() -> None:
    async def main(runtime: Runtime) -> None:
        with provider(published(FIRST)) as at:
            admits = await checking(runtime, at.url, [])
            assert admits(token(FIRST, "a"))
            assert not admits(token(SECOND, "a")), "another key by the same name"
            assert at.asked == 1
            at.body = published(FIRST, SECOND)
            await until(lambda: admits(token(SECOND, "b")))
            for number in range(100):
                assert not admits(token(SECOND, f"nonsense-{number}"))
            assert at.asked == 2, "nonsense does not make it ask"

    play("asyncio", main)


def test_a_slow_answer_holds_up_nothing_else() -> None:
    """The answer comes only after the event loop has gone on."""

    async def main(runtime: Runtime) -> None:
        with provider(published(FIRST)) as at:
            at.may_answer.clear()
            opening = asyncio.create_task(checking(runtime, at.url, []))
            await until(lambda: at.asked == 1)
            assert not opening.done()
            at.may_answer.set()
            assert (await opening)(token(FIRST, "a"))

    play("asyncio", main)


def test_nothing_is_let_in_without_keys_and_failures_keep_the_known_ones() -> None:
    async def main(runtime: Runtime) -> None:
        lines: list[str] = []
        with provider(published(FIRST)) as at:
            at.status = 500
            admits = await checking(runtime, at.url, lines)
            assert not admits(token(FIRST, "a"))
            await until(lambda: not admits(token(FIRST, "a")) and at.asked >= 3)
            assert any("it answers 500" in each for each in lines)
            at.status = 200
            await until(lambda: admits(token(FIRST, "a")))
            for at.body in (
                b"nonsense",
                b'{"keys": []}',
                b"\xff",
                b"[" * 100_000,
                b"x" * (1 << 21),
            ):
                before = at.asked
                admits(token(SECOND, f"asks-{before}"))
                assert admits(token(FIRST, "a")), "the known keys stay"

    play("asyncio", main)


def test_what_may_be_secret_in_the_url_of_keys_is_in_no_log() -> None:
    async def main(runtime: Runtime) -> None:
        lines: list[str] = []
        with provider(published(FIRST)) as at:
            at.status = 500
            url = at.url.replace("http://", "http://user:canary@") + "?token=canary"
            await checking(runtime, url, lines)
        (line,) = lines
        assert at.url in line
        assert "canary" not in line

    play("asyncio", main)


@pytest.mark.parametrize(
    ("url", "is_fetched"),
    [
        ("https://idp.example.com/keys", True),
        ("http://localhost:8080/keys", True),
        ("http://idp.example.com/keys", False),
        ("ftp://idp/keys", False),
        ("https://", False),
        ("https://host:port/", False),
        ("https://[host/", False),
    ],
)
def test_keys_come_by_https_or_from_this_machine(url: str, is_fetched: bool) -> None:
    assert (check_url(url) is None) is is_fetched


def test_known_providers_have_their_keys_at_known_places() -> None:
    table = SettingTable(rows_in(vars(oauth)))

    def location(**given: str) -> Any:
        named: dict[str, str | tuple[str, ...] | None] = {
            name.replace("_", "."): value for name, value in given.items()
        }
        return _known_location(table.resolve(overrides(named)))

    issuer = "https://idp/realms/r"
    assert location(moldau_oauth_provider="keycloak") is None
    assert (
        location(moldau_oauth_provider="Keycloak", sasl_oauthbearer_expected_issuer=issuer)
        == "https://idp/realms/r/protocol/openid-connect/certs"
    )
    issuer = "https://login.microsoftonline.com/tenant/v2.0"
    assert (
        location(moldau_oauth_provider="entra", sasl_oauthbearer_expected_issuer=issuer)
        == "https://login.microsoftonline.com/tenant/discovery/v2.0/keys"
    )
