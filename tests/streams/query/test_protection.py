"""The query API on real sockets with TLS, logins and client certificates, as other HTTP servers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx2
import pytest

from moldau.errors import MoldauError
from moldau.link.http.protection import load_peer_context, load_protection
from moldau.runtime import Runtime
from moldau.streams.query.api import Api
from moldau.streams.query.http import Answer, Request, json_answer
from moldau.streams.query.server import QueryServer
from tests.link.certificates import Authority, written
from tests.runtime.arena import HOST, REAL_ARENAS, play

USER = ("ann", "s:cret")


class Asked:
    """Stands for the API of a worker; `/other` is for the other worker."""

    def __init__(self, server: QueryServer, other: str) -> None:
        self.server = server
        self.other = other

    async def answer(self, request: Request) -> Answer:
        if request.target == "/other" and not request.is_forwarded:
            return await self.server.forward(self.other, request)
        return json_answer({"forwarded": request.is_forwarded})


@asynccontextmanager
async def served(runtime: Runtime, config: Path) -> AsyncIterator[str]:
    """Two workers with the same file of settings; the address of the first."""
    clock, path = runtime.clock, str(config)
    one, two = (
        QueryServer(runtime, load_protection(path, clock), load_peer_context(path, clock))
        for _ in range(2)
    )
    try:
        ports = [await each.listen(HOST, 0) for each in (one, two)]
        for each in (one, two):
            each.serve(cast(Api, Asked(each, f"{HOST}:{ports[1]}")))
        yield f"{HOST}:{ports[0]}"
    finally:
        await one.aclose()
        await two.aclose()


def config_in(folder: Path, **lines: str) -> Path:
    authority = Authority()
    written(folder, "ca.pem", authority.certificate_pem)
    written(folder, "node.pem", authority.issue("localhost", HOST).pem)
    written(folder, "client.pem", authority.issue("ann").pem)
    (folder / "users").write_text("ann=s:cret\n")
    (folder / "tokens").write_text("t1\n")
    given = {
        "ssl.keystore.location": f"{folder}/node.pem",
        "ssl.truststore.location": f"{folder}/ca.pem",
        **{name.replace("_", "."): text for name, text in lines.items()},
    }
    path = folder / "http.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    return path


def trusting(folder: Path, *, certificate: bool = False) -> httpx2.AsyncClient:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if certificate:
        context.load_cert_chain(folder / "client.pem")
    return httpx2.AsyncClient(verify=context, timeout=60)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_a_login_is_asked_for_and_goes_on_to_the_other_worker(arena: str, tmp_path: Path) -> None:
    logins = {"http_users_file": f"{tmp_path}/users", "http_tokens_file": f"{tmp_path}/tokens"}
    config = config_in(tmp_path, **logins)

    async def main(runtime: Runtime) -> None:
        async with served(runtime, config) as address, trusting(tmp_path) as client:
            at = f"https://{address}"
            refused = await client.get(f"{at}/other")
            assert (refused.status_code, refused.json()["again"]) == (401, False)
            assert refused.headers["WWW-Authenticate"] == 'Basic realm="moldau"'
            assert (await client.get(at, auth=("ann", "wrong"))).status_code == 401
            for target, is_forwarded in (("/", False), ("/other", True)):
                found = await client.get(f"{at}{target}", auth=USER)
                assert found.json() == {"forwarded": is_forwarded}
                found = await client.get(f"{at}{target}", headers={"Authorization": "Bearer t1"})
                assert found.json() == {"forwarded": is_forwarded}
            with pytest.raises(httpx2.TransportError):
                await client.get(f"http://{address}/")

    play(arena, main)


@pytest.mark.parametrize("arena", REAL_ARENAS)
def test_only_clients_with_a_certificate_are_served(arena: str, tmp_path: Path) -> None:
    config = config_in(tmp_path, ssl_client_auth="required")

    async def main(runtime: Runtime) -> None:
        async with served(runtime, config) as address:
            async with trusting(tmp_path, certificate=True) as client:
                found = await client.get(f"https://{address}/other")
                assert found.json() == {"forwarded": True}
            async with trusting(tmp_path) as client:
                with pytest.raises(httpx2.TransportError):
                    await client.get(f"https://{address}/")

    play(arena, main)


def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    config = config_in(tmp_path, http_users_file=f"{tmp_path}/missing")

    async def main(runtime: Runtime) -> None:
        with pytest.raises(MoldauError, match=r"http\.users\.file"):
            async with served(runtime, config):
                pass

    play("asyncio", main)
