"""Templates and forms: what every page of the console has in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from moldau.cli.numbers import exact
from moldau.console.access.roles import Role, Visitor
from moldau.console.access.routes import visitor_of
from moldau.console.clusters import prefix_of, prefixed
from moldau.console.pages import texts
from moldau.console.picture import ClusterLists
from moldau.console.refresher import Refresher
from moldau.errors.amounts import counted, noun_of

_SEE_OTHER: Final = 303
FORM_BYTES_MAX: Final = 2 << 20
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
    counted,
    noun_of,
    exact,
)
_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}


class BadForm(Exception):
    """What the user entered cannot be used; the text says what to enter."""


class Renderer:
    """Makes pages from the templates of this package."""

    def __init__(
        self, title: str, has_sessions: bool = False, name: str = "", names: Sequence[str] = ()
    ) -> None:
        """`has_sessions` is whether visitors can log out; `name` is that of the cluster among the
        `names` of several."""
        self._prefix = prefix_of(name) if names else ""
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
        others = {each: f"{prefix_of(each)}/" for each in names}
        self._environment.globals.update(cluster=title, has_sessions=has_sessions)
        self._environment.globals.update(cluster_name=name, clusters=others)

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
        return HTMLResponse(prefixed(text, self._prefix), status, headers=_HEADERS)

    def listed(
        self, request: Request, name: str, lists: Refresher, listed: ClusterLists, **values: Any
    ) -> Response:
        """Return a page of the lists, with their age."""
        age_s, query = lists.age_s(listed), request.url.query
        state = {"age_s": age_s, "problem": lists.problem, "query": query}
        return self.page(request, name, listed=listed, state=state, **values)

    def absent(self, request: Request, title: str, text: str) -> Response:
        """Return a page about something that the console was not given. That is no failure."""
        return self.page(request, "absent.html", title=title, text=text)

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
    """Return the fields of a form. Raise BadForm."""
    read: dict[str, str] | None = getattr(request.state, "form", None)
    if read is not None:
        return read
    try:
        body = (await request.body()).decode("utf-8")
        fields = parse_qs(body, keep_blank_values=True, strict_parsing=False)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadForm("the form is not UTF-8 text") from error
    form = {name: values[-1] for name, values in fields.items()}
    request.state.form = form
    return form


def see(path: str) -> Response:
    """Send the browser to a page after a change."""
    return RedirectResponse(path, _SEE_OTHER)


async def typed_name(request: Request, kind: str, effect: str = "to delete it") -> str:
    """Return the name in the request's path, which the form has to repeat. Raise BadForm."""
    name: str = request.path_params["name"]
    if (await form_of(request)).get("name", "").strip() != name:
        raise BadForm(f"type the name of the {kind} {effect}: {name}")
    return name


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
