"""A listener with OAUTHBEARER, and our client with a function that brings tokens."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from moldau.broker.server import Broker
from moldau.client import Admin, Producer
from moldau.config import BadSettings
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.link.login import token_keys
from moldau.link.login.sasl import LoginRefused
from moldau.runtime import Runtime
from moldau.runtime.real_files import RealFiles
from tests.broker.server.houses import house
from tests.broker.server.secure_houses import CANARY, SecureHouse, replicated, two_nodes
from tests.broker.server.token_provider import provider
from tests.runtime.arena import HOST, play, until

LIFE_S = 6.0
"""Of a token: one of a second would end before a busy machine has renewed it."""
MECHANISM = "listener.name.sasl_plaintext.oauthbearer"
LOOK_SECONDS = 1.1
"""A file of keys is looked at once a second at most."""
KEY = ECKey.generate_key("P-256", parameters={"kid": "one"})


def settings_of(folder: Path) -> dict[str, str]:
    keys = folder / "keys.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    return {
        "listeners": f"SASL_PLAINTEXT://{HOST}:0,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
        "sasl.oauthbearer.expected.issuer": "https://idp",
        "sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": "1",
    }


def client_of(broker: Broker) -> dict[str, str]:
    return {
        "bootstrap.servers": f"{HOST}:{broker.endpoints['SASL_PLAINTEXT'].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }


@asynccontextmanager
async def listening(
    runtime: Runtime, folder: Path
) -> AsyncIterator[tuple[SecureHouse, dict[str, str]]]:
    """A broker with such a listener, in its house, and the settings of a client of it."""
    async with house(runtime) as plain:
        at = SecureHouse(runtime, plain.directory, settings_of(folder))
        broker = await at.start()
        try:
            yield at, client_of(broker)
        finally:
            await broker.aclose()


def token(now_s: float, seconds: float, key: ECKey = KEY, kid: str = "one") -> str:
    claims = {"iss": "https://idp", "aud": "kafka", "sub": "alice", "exp": now_s + seconds}
    return jwt.encode({"alg": "ES256", "kid": kid}, claims, key)


def test_tokens_are_renewed_on_the_live_connection(tmp_path: Path) -> None:
    """The client goes on for longer than its first token lives."""

    async def main(runtime: Runtime) -> None:
        calls = 0

        async def bring() -> str:
            nonlocal calls
            calls += 1
            return token(runtime.clock.wall_ms() / 1000, LIFE_S)

        async def fail() -> str:
            raise RuntimeError("canary")

        async def bring_old() -> str:
            return token(0, 1)

        async with listening(runtime, tmp_path) as (at, given):
            async with Producer(given, oauth=bring) as producer:
                until = runtime.clock.monotonic() + LIFE_S + 1
                while runtime.clock.monotonic() < until:
                    await producer.send_and_wait("t", b"value")
            assert calls >= 2
            for wrong in (fail, bring_old):
                with pytest.raises(LoginRefused) as caught:
                    async with Admin(given, oauth=wrong):
                        pass
                assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                assert "canary" not in str(caught.value)
            with pytest.raises(ConfigError, match="oauth="):
                async with Admin(given):
                    pass
        assert not [each for each in at.lines if "expired" in each and "login has" in each]

    play("asyncio", main)


def test_brokers_log_in_at_each_other_with_tokens_of_the_provider(tmp_path: Path) -> None:
    """They ask once for many connections. What is set below the mechanism of the listener counts
    first."""

    async def main(runtime: Runtime) -> None:
        def granted() -> bytes:
            text = token(runtime.clock.wall_ms() / 1000, 3600)
            return json.dumps({"access_token": text, "expires_in": 3600}).encode()

        async def bring() -> str:
            return token(runtime.clock.wall_ms() / 1000, 3600)

        with provider() as idp:
            idp.make_token = granted
            given = {
                **settings_of(tmp_path),
                "sasl.oauthbearer.token.endpoint.url": idp.url,
                "sasl.oauthbearer.client.credentials.client.id": "broker",
                "sasl.oauthbearer.client.credentials.client.secret": CANARY,
                "sasl.oauthbearer.scope": "of-others",
                f"{MECHANISM}.sasl.oauthbearer.scope": "kafka",
                "sasl.oauthbearer.expected.audience": "of-others",
                f"{MECHANISM}.sasl.oauthbearer.expected.audience": "kafka",
            }
            async with two_nodes(runtime, "SASL_PLAINTEXT", given) as two:
                await replicated(client_of(two.broker), oauth=bring)
            secret = b64encode(f"broker:{CANARY}".encode()).decode()
            form = "grant_type=client_credentials&scope=kafka"
            assert set(idp.forms) == {(f"Basic {secret}", form)}
            assert len(idp.forms) <= 2, "once for each node"
        for each in two.houses:
            assert not [line for line in each.lines if CANARY in line or "eyJ" in line]

    play("asyncio", main)


def test_a_file_of_keys_is_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first token of a new key counts."""
    loops, readers = {threading.get_ident()}, set[int]()
    new = ECKey.generate_key("P-256", parameters={"kid": "new"})

    class Watched(RealFiles):
        def read_text(self, path: str) -> str:
            readers.add(threading.get_ident())
            return super().read_text(path)

    async def main(runtime: Runtime) -> None:
        async def bring() -> str:
            return token(runtime.clock.wall_ms() / 1000, 60, new, "new")

        loops.add(threading.get_ident())
        async with listening(runtime, tmp_path) as (_, given):
            begun = runtime.clock.monotonic()
            with pytest.raises(LoginRefused):
                async with Admin(given, oauth=bring):
                    pass
            both = KeySet([KEY, new]).as_dict(private=False)
            (tmp_path / "keys.json").write_text(json.dumps(both))
            await until(lambda: runtime.clock.monotonic() - begun > LOOK_SECONDS)
            async with Admin(given, oauth=bring):
                pass

    monkeypatch.setattr(token_keys, "RealFiles", Watched)
    play("asyncio", main)
    assert readers
    assert not readers & loops


def test_a_wrong_place_of_keys_shows_no_secret(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as plain:
            url = "http://user:canary@idp.example.com/keys?token=canary"
            given = {**settings_of(tmp_path), "sasl.oauthbearer.jwks.endpoint.url": url}
            with pytest.raises(ConfigError, match=r"http://idp\.example\.com/keys") as caught:
                await SecureHouse(runtime, plain.directory, given).start()
            assert "canary" not in str(caught.value)

    play("asyncio", main)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.oauthbearer.token.endpoint.url", ""),
        ("sasl.oauthbearer.token.endpoint.url", "http://idp.example.com/token"),
        ("sasl.oauthbearer.client.credentials.client.id", ""),
    ],
)
def test_connections_to_other_nodes_need_a_provider(name: str, value: str, tmp_path: Path) -> None:
    given = {
        **settings_of(tmp_path),
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.client.credentials.client.id": "broker",
        "sasl.oauthbearer.client.credentials.client.secret": CANARY,
        name: value,
    }

    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match=name) as caught:
            async with two_nodes(runtime, "SASL_PLAINTEXT", given):
                pass
        assert CANARY not in str(caught.value)

    play("asyncio", main)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.expected.audience",
    ],
)
def test_without_any_of_the_checks_the_listener_does_not_open(name: str, tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        async with house(runtime) as plain:
            given = settings_of(tmp_path)
            del given[name]
            with pytest.raises(ConfigError, match=name):
                await SecureHouse(runtime, plain.directory, given).start()

    play("asyncio", main)


@pytest.mark.parametrize("part", ["issuer", "audience"])
def test_a_listener_without_one_of_the_checks_opens_if_that_is_allowed(
    part: str, tmp_path: Path
) -> None:
    """The other claim is checked nevertheless."""
    claim = {"issuer": "iss", "audience": "aud"}

    async def main(runtime: Runtime) -> None:
        async def bring(name: str) -> str:
            said = {"iss": "https://idp", "aud": "kafka", "sub": "alice", claim[name]: "another"}
            now = int(runtime.clock.wall_ms() / 1000)
            return jwt.encode({"alg": "ES256", "kid": KEY.kid}, {**said, "exp": now + 60}, KEY)

        async with house(runtime) as plain:
            given = settings_of(tmp_path)
            del given[f"sasl.oauthbearer.expected.{part}"]
            given[f"{MECHANISM}.sasl.oauthbearer.allow.unverified.{part}"] = "true"
            at = SecureHouse(runtime, plain.directory, given)
            broker = await at.start()
            try:
                async with Admin(client_of(broker), oauth=lambda: bring(part)) as admin:
                    await admin.list_topics()
                (other,) = claim.keys() - {part}
                with pytest.raises(LoginRefused):
                    async with Admin(client_of(broker), oauth=lambda: bring(other)):
                        pass
                setting = f"sasl.oauthbearer.expected.{part}"
                assert any("insecure" in line and setting in line for line in at.lines)
            finally:
                await broker.aclose()

    play("asyncio", main)


def test_the_function_is_no_text() -> None:
    with pytest.raises(BadSettings, match="async function"):
        Admin({"bootstrap.servers": "a:1", "oauth": "token"})
