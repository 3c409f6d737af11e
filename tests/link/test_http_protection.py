"""The protection of HTTP servers: passwords, bearer tokens, TLS, certificates of clients."""

from __future__ import annotations

import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx2
import pytest

from moldau.errors import ConfigError
from moldau.link.certificates import issue, make_authority
from moldau.link.http.protection import HttpProtection, load_protection, open_to_all, protection_of
from moldau.runtime import Runtime
from moldau.runtime.http_door import NO_BODY
from moldau.runtime.http_server import HttpServer
from moldau.runtime.real import RealRuntime
from tests.runtime.arena import play


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("given", "is_right"),
    [
        (basic("ann", "s:cret"), True),
        (basic("ann", "s:cret").replace("Basic", "bAsIc"), True),
        (basic("ann", ""), False),
        (basic("ann", "s:cret "), False),
        (basic("bob", "s:cret"), False),
        (basic("bob", ""), False),
        ("Basic " + b64encode(b"ann").decode(), False),
        ("Basic %%%", False),
        ("Basic " + b64encode(b"\xff:\xff").decode(), False),
        ("Bearer t1", True),
        ("Bearer t", False),
        ("Bearer ", False),
        ("Digest t1", False),
        ("", False),
    ],
)
def test_only_users_and_tokens_are_admitted(given: str, is_right: bool) -> None:
    protection = HttpProtection({"ann": "s:cret"}, frozenset({"t1", "t2"}))
    assert protection.admits(given) is is_right
    assert "s:cret" not in repr(protection)
    assert "t1" not in repr(protection)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"http.users.file": "missing"}, "it cannot be read"),
        ({"http.users.file": "empty"}, "it needs name=password"),
        ({"http.tokens.file": "empty"}, "it has no token"),
        ({"ssl.client.auth": "required"}, "certificates of clients need TLS"),
        ({"http.user.file": "x"}, "http.users.file"),
    ],
)
def test_what_would_be_open_is_refused(tmp_path: Path, lines: dict[str, str], said: str) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    path = tmp_path / "http.properties"
    text = [
        f"{name}={tmp_path / value if name.endswith('.file') else value}\n"
        for name, value in lines.items()
    ]
    path.write_text("".join(text))
    with pytest.raises(ConfigError, match=said):
        load_protection(str(path), RealRuntime("test").clock)


def test_addresses_of_the_network_are_told_from_local_ones() -> None:
    assert open_to_all(HttpProtection(), "")
    assert open_to_all(HttpProtection(), "10.0.0.1")
    assert not open_to_all(HttpProtection(), "127.0.0.1")
    assert not open_to_all(HttpProtection(tokens=frozenset("t")), "")


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_a_server_with_tls_follows_its_certificate_and_asks_for_one(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        now_ms = runtime.clock.wall_ms()
        authority = make_authority("ca", now_ms)
        (tmp_path / "ca.pem").write_text(authority.certificate)
        for name, hosts in (("node", ("localhost",)), ("client", ())):
            made = issue(authority, name, hosts, now_ms)
            (tmp_path / f"{name}.pem").write_text(made.key + made.certificate)
        (tmp_path / "users").write_text("ann=secret\n")
        given = {
            "ssl.keystore.location": f"{tmp_path}/node.pem",
            "ssl.truststore.location": f"{tmp_path}/ca.pem",
            "ssl.client.auth": "required",
            "http.users.file": f"{tmp_path}/users",
        }
        protection = protection_of(given, runtime.clock)
        assert protection.scheme == "https"
        server = HttpServer(runtime, "the test", "choose another port")
        _, port = server.bind("127.0.0.1", 0)
        await server.start(protection.guard(hello), protection.rules(NO_BODY), protection.context)
        try:
            context = ssl.create_default_context(cafile=f"{tmp_path}/ca.pem")
            url = f"https://localhost:{port}/"
            async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
                with pytest.raises(httpx2.TransportError):
                    await client.get(url)
            context.load_cert_chain(f"{tmp_path}/client.pem")
            async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
                refused = await client.get(url)
                assert refused.status_code == 401
                assert refused.headers["www-authenticate"].startswith("Basic")
                assert (await client.get(url, auth=("ann", "secret"))).text == "hello"
        finally:
            await server.aclose()

    play("asyncio", main)
