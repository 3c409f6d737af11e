"""Token endpoints on a real port, which answer as Keycloak and as Microsoft Entra ID do.

    with token_provider() as at:
        at.keycloak, at.entra           # issuers; the keys are where each product has them

Its own thread serves it, so that a synchronous client or another process can ask too. What it was
sent is in `forms`, what it gave in `tokens`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.runtime import Runtime
from moldau.runtime.http_door import FORM, DoorRules
from moldau.runtime.http_server import HttpServer
from moldau.runtime.real import run

REALM: Final = "shop"
TENANT: Final = "11111111-2222-3333-4444-555555555555"
CLIENT: Final = "orders"
SECRET: Final = "s3cret/with:signs+and spaces"  # noqa: S105 - of the tests
SCOPE: Final = "api://kafka/.default"
GRANT: Final = "client_credentials"


class TokenProvider:
    """Both products, with one client each."""

    def __init__(self) -> None:
        self.address = ""
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one"})
        self.client_key = ECKey.generate_key("P-256")
        """Verifies the assertions of the client."""
        self.life_s = 300
        self.secret = SECRET
        self.fails = 0
        """How many of the next requests are answered with 503."""
        self.forms: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.stops: list[Any] = []

    @property
    def keycloak(self) -> str:
        return f"{self.address}/realms/{REALM}"

    @property
    def entra(self) -> str:
        return f"{self.address}/{TENANT}/v2.0"

    async def keys(self, request: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def _form(self, request: Request) -> dict[str, str]:
        """The fields, with the client and its secret from the header."""
        found = dict(parse_qsl((await request.body()).decode(), strict_parsing=True))
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            client, _, secret = b64decode(given).decode().partition(":")
            found |= {"client_id": unquote_plus(client), "secret": unquote_plus(secret)}
        self.forms.append(found)
        return found

    def _knows(self, form: dict[str, str]) -> bool:
        shown = form.get("client_assertion")
        if shown is not None:
            claims = jwt.decode(shown, self.client_key, algorithms=["ES256"]).claims
            return bool(claims["sub"] == CLIENT and claims["exp"] > time.time())
        return form.get("client_id") == CLIENT and form.get("secret") == self.secret

    def _issue(self, **claims: object) -> dict[str, Any]:
        now_s = int(time.time())
        said = {"iat": now_s, "exp": now_s + self.life_s, "azp": CLIENT, **claims}
        token = jwt.encode({"alg": "ES256", "kid": "one", "typ": "JWT"}, said, self.key)
        self.tokens.append(token)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}

    def _is_down(self) -> bool:
        self.fails -= 1
        return self.fails >= 0

    async def ask_keycloak(self, request: Request) -> Response:
        form = await self._form(request)
        if self._is_down():
            return Response("<html>Service Unavailable</html>", 503)
        if not self._knows(form):
            said = "Invalid client or Invalid client credentials"
            error = {"error": "unauthorized_client", "error_description": said}
            return JSONResponse(error, 401)
        issued = self._issue(iss=self.keycloak, aud="kafka", sub="f6b6-service")
        more = {"refresh_expires_in": 0, "not-before-policy": 0, "scope": "profile email"}
        return JSONResponse({**issued, **more})

    async def ask_entra(self, request: Request) -> Response:
        form = await self._form(request)
        if "scope" not in form:
            return _of_entra(400, "invalid_request", 900144, "must contain 'scope'")
        if form["scope"] != SCOPE:
            return _of_entra(400, "invalid_scope", 70011, "The provided value is not valid.")
        if not self._knows(form):
            return _of_entra(401, "invalid_client", 7000215, "Invalid client secret provided.")
        issued = self._issue(iss=self.entra, aud="kafka", sub="a-service", oid="a-service")
        return JSONResponse({**issued, "ext_expires_in": self.life_s})

    def app(self) -> Starlette:
        path = f"/realms/{REALM}/protocol/openid-connect"
        return Starlette(
            routes=[
                Route(f"{path}/token", self.ask_keycloak, methods=["POST"]),
                Route(f"{path}/certs", self.keys),
                Route(f"/{TENANT}/oauth2/v2.0/token", self.ask_entra, methods=["POST"]),
                Route(f"/{TENANT}/discovery/v2.0/keys", self.keys),
            ]
        )


def _of_entra(status: int, error: str, code: int, said: str) -> Response:
    text = f"AADSTS{code}: {said} Trace ID: 0a0b Correlation ID: 0c0d Timestamp: 2026-01-01"
    facts = {"error_codes": [code], "trace_id": "0a0b", "correlation_id": "0c0d"}
    return JSONResponse({"error": error, "error_description": text, **facts}, status)


@contextmanager
def token_provider() -> Iterator[TokenProvider]:
    """Serve both products until the block ends."""
    found, is_up = TokenProvider(), threading.Event()

    async def serve(runtime: Runtime) -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        found.stops.append(lambda: loop.call_soon_threadsafe(ended.set))
        server = HttpServer(runtime, "the provider", "choose another address")
        try:
            host, port = server.bind("127.0.0.1", 0)
            await server.start(found.app(), DoorRules((FORM,)))
            found.address = f"http://{host}:{port}"
            is_up.set()
            await ended.wait()
        finally:
            await server.aclose()

    thread = threading.Thread(target=lambda: run(serve, loop="asyncio"), daemon=True)
    thread.start()
    assert is_up.wait(30), "the provider does not come up"
    try:
        yield found
    finally:
        for stop in found.stops:
            stop()
        thread.join(30)
