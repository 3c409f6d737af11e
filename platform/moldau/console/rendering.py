"""Templates and forms: what every page of the console has in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from moldau.cli.numbers import exact
from moldau.console import texts
from moldau.console.roles import Role, Visitor
from moldau.console.routes import visitor_of

_FORM_BYTES_MAX: Final = 2 << 20
_SAFE: Final = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'self'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _SAFE,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_FILTERS: Final = (
    texts.size,
    texts.number,
    texts.moment,
    texts.indented,
    texts.ago,
    texts.rate,
    texts.duration,
    exact,
)
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


class BadForm(Exception):
    """What the user entered cannot be used; the text says what to enter."""


class Renderer:
    """Makes pages from the templates of this package."""

    def __init__(self, title: str, has_sessions: bool = False) -> None:
        """`has_sessions` is whether visitors can log out."""
        self.needs: Mapping[str, Role] = {}
        """The role that each action needs, by the table of routes."""
        self._environment = Environment(
            loader=PackageLoader("moldau.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for each in _FILTERS:
            self._environment.filters[each.__name__] = each
        self._environment.globals.update(cluster=title, has_sessions=has_sessions)

    def page(self, request: Request, name: str, status: int = 200, **values: Any) -> Response:
        """Return a page."""
        template, visitor = self._environment.get_template(name), visitor_of(request)

        def may(action: str) -> bool:
            """Whether the visitor's role allows an action of the table."""
            return visitor.has(self.needs[action])

        text = template.render(
            path=request.scope["path"],
            visitor=visitor,
            may=may,
            topic_link=partial(topic_link, visitor),
            is_admin=visitor.has(Role.ADMIN),
            **values,
        )
        return HTMLResponse(text, status, headers=_HEADERS)

    def failure(self, request: Request, status: int, title: str, text: str) -> Response:
        """Return a page that says what went wrong and what to do."""
        return self.page(request, "failure.html", status, title=title, text=text)


def topic_link(visitor: Visitor, topic: str, **at: object) -> str:
    """Return the address of a topic's messages, from an offset `at` if one is given; that of the
    topic's partitions for a visitor that does not see its messages."""
    base = f"/topics/{quote(topic, safe='')}"
    if not visitor.sees(topic):
        return base
    return f"{base}/messages{'?' if at else ''}{urlencode({'from': 'offset', **at} if at else {})}"


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that this console's own page has sent. Raise BadForm."""
    check_origin(request)
    read: dict[str, str] | None = getattr(request.state, "form", None)
    if read is not None:
        return read
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES_MAX:
            raise BadForm(f"a form may have {texts.size(_FORM_BYTES_MAX)} at most")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, strict_parsing=False)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadForm("the form is not UTF-8 text") from error
    form = {name: values[-1] for name, values in fields.items()}
    request.state.form = form
    return form


def check_origin(request: Request) -> None:
    """Refuse a form that another site's page has sent: a browser tells where it comes from. One
    that logs in by its cookie has to."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    is_own = origin is None or origin.partition("://")[2] == request.headers.get("host")
    is_told = origin is not None or "sec-fetch-site" in request.headers
    is_by_cookie = "cookie" in request.headers and "authorization" not in request.headers
    if not is_own or site not in ("same-origin", "none") or (is_by_cookie and not is_told):
        raise HTTPException(403, "the form came from another site")


def check_host(request: Request, hosts: Collection[str]) -> None:
    """Refuse a request under another name than these. Else a name of another site that leads to
    this machine (DNS rebinding) would count as the console's own."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:  # such as [::1
        name = None
    if name not in hosts:
        raise HTTPException(403, f"the console is not reached by the name {name or host}")


async def asset(request: Request) -> Response:
    """Return a style sheet or script of this package."""
    name = request.path_params["name"]
    folder = files("moldau.console") / "static"
    found = next((each for each in folder.iterdir() if each.name == name), None)
    if found is None:
        raise HTTPException(404, f"there is no asset {name}")
    kind = _KINDS.get(name[name.rfind(".") :], "application/octet-stream")
    headers = {"Cache-Control": "max-age=3600", "X-Content-Type-Options": "nosniff"}
    return Response(found.read_bytes(), media_type=kind, headers=headers)
