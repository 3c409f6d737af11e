"""A small OpenID Connect provider on a real port: it asks for a user, and signs tokens."""

from __future__ import annotations

import hashlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from moldau.runtime import Runtime
from moldau.runtime.http_door import FORM, DoorRules
from moldau.runtime.http_server import HttpServer

CLIENT_ID = "moldau-console"
SECRET = "s3cret/with:signs"  # noqa: S105 - of the tests
GROUPS = {"ann": ["admin"], "bob": ["operator", "shop"], "eve": ["viewer"], "zoe": ["strangers"]}

Change = Callable[[dict[str, Any]], dict[str, Any]]


class Provider:
    """What it has given out, and what a test changes about its tokens."""

    def __init__(self) -> None:
        self.issuer = ""
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one"})
        self.signs_with = self.key
        self.change: Change = lambda claims: claims
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: list[str] = []
        self.refused: list[str] = []

    def _now(self) -> int:
        return self.runtime.clock.wall_ms() // 1000

    runtime: Runtime

    async def discovery(self, request: Request) -> Response:
        end = f"{self.issuer}/end"
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "end_session_endpoint": end,
                "scopes_supported": ["openid", "groups"],
            }
        )

    async def keys(self, request: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def authorize(self, request: Request) -> Response:
        """Ask for the user, or send the browser back with a code."""
        query = dict(request.query_params)
        user = query.pop("user", None)
        if user is None:
            fields = "".join(
                f'<input type="hidden" name="{k}" value="{v}">' for k, v in query.items()
            )
            return HTMLResponse(
                f'<html lang="en"><title>Provider</title><form>{fields}'
                '<label>User <input name="user"></label><button>Allow</button></form></html>'
            )
        code = f"code-{len(self.codes)}"
        self.codes[code] = {**query, "user": user}
        back = urlencode({"code": code, "state": query["state"]})
        return RedirectResponse(f"{query['redirect_uri']}?{back}", 302)

    async def token(self, request: Request) -> Response:
        """Give a token for a code, once, to the client that began with it."""
        body = (await request.body()).decode()
        form = {
            k: unquote(v.replace("+", " "))
            for k, _, v in (p.partition("=") for p in body.split("&"))
        }
        given = b64decode(request.headers["authorization"].partition(" ")[2]).decode()
        name, _, secret = given.partition(":")
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or (unquote(name), unquote(secret)) != (CLIENT_ID, SECRET)
            or asked["redirect_uri"] != form["redirect_uri"]
            or (asked["code_challenge"], asked["code_challenge_method"]) != (proof, "S256")
        ):
            self.refused.append(form.get("code", ""))
            return JSONResponse({"error": "invalid_grant"}, 400)
        user = asked["user"]
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": user,
            "nonce": asked["nonce"],
            "groups": GROUPS[user],
            "exp": self._now() + 300,
            "iat": self._now(),
        }
        header = {"alg": "ES256", "kid": self.signs_with.kid}
        made = jwt.encode(header, self.change(claims), self.signs_with)
        self.tokens.append(made)
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": made})

    async def end(self, request: Request) -> Response:
        return HTMLResponse('<html lang="en"><title>Ended</title><p>Ended</p></html>')


@asynccontextmanager
async def provider(runtime: Runtime) -> AsyncIterator[Provider]:
    """Serve a provider, on the test's own event loop."""
    found = Provider()
    found.runtime = runtime
    routes = [
        Route("/.well-known/openid-configuration", found.discovery),
        Route("/keys", found.keys),
        Route("/authorize", found.authorize),
        Route("/token", found.token, methods=["POST"]),
        Route("/end", found.end),
    ]
    server = HttpServer(runtime, "the provider", "choose another address")
    try:
        host, port = server.bind("127.0.0.1", 0)
        found.issuer = f"http://{host}:{port}"
        await server.start(Starlette(routes=routes), DoorRules((FORM,)))
        yield found
    finally:
        await server.aclose()
