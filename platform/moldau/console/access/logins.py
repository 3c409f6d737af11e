"""Logins of browsers: the gate before the pages, and the addresses /login, /login/done and /logout.

A browser without a session is sent to the provider, and comes back with one; anything else is
answered 401. A password or a token in a header, of `--http-config`, counts beside it.

Invariants: the cookie of a session is HttpOnly, SameSite=Lax (Strict would not come along when the
provider sends the browser back) and, over TLS, Secure with the prefix __Host-; after a login the
browser is sent on, so that no code stays in its address; it is sent to pages of this console only.
"""

from __future__ import annotations

from dataclasses import asdict
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from moldau.console.access.oidc import LoginFailed, Oidc, Pending
from moldau.console.access.roles import Login
from moldau.console.access.routes import SESSION, STILL
from moldau.console.access.sessions import LOGIN_S, LONGEST_S, Seal, Sessions, name_of
from moldau.console.access.visitor import Access, proven_by
from moldau.console.clusters import FOLDER, PREFIX
from moldau.console.pages.health import is_probe
from moldau.console.pages.rendering import Renderer

if TYPE_CHECKING:
    from moldau.link.http.protection import HttpProtection
    from moldau.runtime import Runtime

LOGIN: Final = "/login"
DONE: Final = "/login/done"
LOGOUT: Final = "/logout"
_OPEN: Final = (LOGIN, DONE, LOGOUT)
"""The addresses for browsers without a session."""
_ASSETS: Final = "/static/"
_SEE_OTHER: Final = 303
_SESSION: Final = "moldau-session"
_LOGIN: Final = "moldau-login"
_AGAIN: Final = "Log in again, in one window at a time."


class Logins:
    """The sessions of one console, and how they begin and end."""

    def __init__(self, oidc: Oidc, by: HttpProtection, runtime: Runtime) -> None:
        self._oidc = oidc
        self._prove = proven_by(by)
        self._clock = runtime.clock
        self._random_bytes = runtime.random.randbytes
        self._sessions = Sessions(self._random_bytes)
        self._seal = Seal(self._random_bytes(32))

    def login(self, request: Request) -> Login | None:
        """Return what a request proves: a session, or a password or token that is right."""
        if request.headers.get("authorization", ""):
            return self._prove(request)
        cookie = request.cookies.get(self._name(request, _SESSION), "")
        return self._sessions.find(cookie, self._clock.monotonic()) if cookie else None

    def session_name(self, request: Request) -> str:
        """Return what names the session of a request; an empty text without one."""
        cookie = request.cookies.get(self._name(request, _SESSION), "")
        is_session = cookie and not request.headers.get("authorization", "")
        return name_of(cookie) if is_session else ""

    # The addresses.

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider. Raise LoginFailed."""
        back = inner(request.query_params.get("back", "/"))
        prefix: str = getattr(request.state, PREFIX, "")
        given = self._oidc.client.redirect_uri or str(request.base_url.replace(path=DONE))
        redirect_uri = f"{given.removesuffix(DONE)}{prefix}{DONE}" if prefix else given
        pending = Pending.new(self._random_bytes, redirect_uri, back)
        answer = RedirectResponse(await self._oidc.begin(pending), _SEE_OTHER)
        sealed = self._seal.closed(asdict(pending), self._clock.monotonic())
        self._set(request, answer, _LOGIN, sealed, LOGIN_S)
        return answer

    async def finish(self, request: Request) -> Response:
        """Begin a session for a browser that the provider sends back. Raise LoginFailed."""
        query = request.query_params
        cookie = request.cookies.get(self._name(request, _LOGIN), "")
        values = self._seal.opened(cookie, self._clock.monotonic())
        if values is None:
            raise LoginFailed(f"this browser has begun no login in the last minutes. {_AGAIN}")
        pending = Pending(**values)
        if not compare_digest(
            query.get("state", "").encode("utf-8", "replace"), pending.state.encode()
        ):
            raise LoginFailed(f"the provider answers another login. {_AGAIN}")
        if "code" not in query:
            raise LoginFailed(f"the provider refuses: {query.get('error', 'it gives no code')}")
        login = await self._oidc.finish(query["code"], pending)
        answer = RedirectResponse(pending.back, _SEE_OTHER)
        made = self._sessions.open(login, self._clock.monotonic())
        self._set(request, answer, _SESSION, made, LONGEST_S)
        self._drop(request, answer, _LOGIN)
        return answer

    def end(self, request: Request, answer: Response) -> Response:
        """End the session of a request, and return the answer without its cookie."""
        self._sessions.close(request.cookies.get(self._name(request, _SESSION), ""))
        self._drop(request, answer, _SESSION)
        return answer

    async def provider_end(self) -> str | None:
        """Return where the session at the provider is ended."""
        try:
            url = (await self._oidc.provider()).end_session_url
        except LoginFailed:
            return None
        return url and f"{url}?{urlencode({'client_id': self._oidc.client.client_id})}"

    # Cookies.

    def _is_secure(self, request: Request) -> bool:
        return (self._oidc.client.redirect_uri or str(request.url)).startswith("https:")

    def _name(self, request: Request, name: str) -> str:
        prefix: str = getattr(request.state, PREFIX, "")
        own = f"{name}-{prefix.removeprefix(FOLDER).replace('%', '.')}" if prefix else name
        return f"__Host-{own}" if self._is_secure(request) else own

    def _set(
        self, request: Request, answer: Response, name: str, value: str, seconds: float
    ) -> None:
        answer.set_cookie(
            self._name(request, name),
            value,
            max_age=int(seconds),
            secure=self._is_secure(request),
            httponly=True,
            samesite="lax",
        )

    def _drop(self, request: Request, answer: Response, name: str) -> None:
        self._set(request, answer, name, "", 0)


def inner(address: str) -> str:
    """Return an address of this console: that one, or the first page."""
    is_inner = address.startswith("/") and not address.startswith(("//", f"{LOGIN}?", DONE))
    is_plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if is_inner and is_plain else "/"


class LoginPages:
    """The endpoints of logins, and the gate before all others."""

    def __init__(self, logins: Logins, renderer: Renderer, access: Access) -> None:
        self._logins = logins
        self._renderer = renderer
        self._access = access

    def routes(self) -> list[Route]:
        """Return the routes of logins."""
        return [
            Route(LOGIN, self.log_in, methods=["GET"]),
            Route(DONE, self.log_in, methods=["GET"]),
            Route(LOGOUT, self.log_out, methods=["POST"]),
        ]

    async def log_in(self, request: Request) -> Response:
        """Send the browser to the provider, or let the one in that comes back."""
        self._access.visitor(request)
        logins = self._logins
        try:
            is_back = request.scope["path"] == DONE
            return await (logins.finish if is_back else logins.begin)(request)
        except LoginFailed as error:
            return self._renderer.failure(request, 403, "The login has failed", str(error))

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        request.state.visitor = self._access.of(Login())
        url = await self._logins.provider_end()
        page = self._renderer.page(request, "logged_out.html", provider=url)
        return self._logins.end(request, page)

    def gate(self, application: Any) -> Any:
        """Return the application behind the gate."""

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            state = scope.setdefault("state", {}) if scope["type"] == "http" else {}
            if scope["type"] != "http" or "visitor" in state:
                await application(scope, receive, send)
                return
            request = Request(scope)
            path = scope["path"]
            login = self._logins.login(request)
            if login is not None:
                state["login"] = login
                state[SESSION] = self._logins.session_name(request)
                state[STILL] = lambda: self._logins.login(request) is not None
            is_open = path in _OPEN or path.startswith(_ASSETS) or is_probe(request.method, path)
            if login is None and not is_open:
                await self._refusal(request)(scope, receive, send)
            else:
                await application(scope, receive, send)

        return guarded

    def _refusal(self, request: Request) -> Response:
        """Return the answer to a request without a login."""
        query = request.scope.get("query_string", b"").decode("latin-1")
        asked = request.scope["path"] + (f"?{query}" if query else "")
        is_part = "hx-request" in request.headers
        to = f"{LOGIN}?back={quote('/' if is_part else asked, safe='')}"
        if is_part:
            return Response(status_code=401, headers={"HX-Redirect": to})
        is_page = "text/html" in request.headers.get("accept", "")
        if request.method == "GET" and is_page and "authorization" not in request.headers:
            return RedirectResponse(to, _SEE_OTHER)
        self._access.visitor(request)
        text = "The session has ended, and nothing was done. Log in, and do it again."
        return self._renderer.failure(request, 401, "A login is needed", text)
