"""What is asked of a registry and what it answers; where it is, and where a redirect leads.

Invariants: a redirect is followed on the same host and scheme only, because credentials go along;
credentials are in the request and in no error.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from moldau.errors import ConfigError

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_PORTS: Final = {"http": 80, "https": 443}
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_IN_TARGETS: Final = "%/?:@!$&'()*+,;=~-._"
"""What is left as it is in the target of a request."""


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where a registry is. The name and password of the URL are kept apart from what is shown."""

    scheme: str
    host: str
    port: int
    path: str
    user_info: str | None = field(default=None, repr=False, compare=False)

    @property
    def is_tls(self) -> bool:
        """https."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}{self.path}"


def parse_url(url: str) -> HttpAddress:
    """An address; ConfigError without the password that may be in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"no URL: {error}", setting="schema.registry.url") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError("no http:// or https:// address", setting="schema.registry.url")
    user_info = None
    if parts.username is not None:
        user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    port = _PORTS[parts.scheme] if port is None else port
    return HttpAddress(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), user_info)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to ask; `target` begins with a slash and has the query."""

    method: str
    target: str
    body: bytes | None = None

    def headers(self, authorization: str | None) -> dict[str, str]:
        """What goes before the body, beside the host and the length."""
        headers = {"User-Agent": "moldau", "Accept": f"{_JSON}, application/json; q=0.9"}
        if authorization is not None:
            headers["Authorization"] = authorization
        if self.body is not None:
            headers["Content-Type"] = _JSON
        return headers


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came."""

    status: int
    body: bytes
    location: str | None = None
    """Where a redirect leads, as the peer wrote it."""


def redirected(
    address: HttpAddress, request: HttpRequest, answer: HttpAnswer
) -> tuple[HttpAddress, HttpRequest] | None:
    """Where to ask instead; None where that is not to be done: only what reads follows, and only on
    the same host in the same scheme, for credentials go along."""
    if answer.status not in REDIRECTS or request.method != "GET" or not answer.location:
        return None
    try:
        parts = urlsplit(urljoin(f"{address}{request.target}", answer.location))
        port = parts.port
    except ValueError:
        return None
    if (parts.scheme, parts.hostname) != (address.scheme, address.host):
        return None
    target = quote(parts.path or "/", _IN_TARGETS)
    if parts.query:
        target += "?" + quote(parts.query, _IN_TARGETS)
    there = HttpAddress(
        address.scheme, address.host, _PORTS[address.scheme] if port is None else port, ""
    )
    return there, HttpRequest("GET", target)


def authorization(user_info: str | None, token: str | None) -> str | None:
    """The header's value."""
    if token is not None:
        return f"Bearer {token}"
    if user_info is not None:
        return f"Basic {base64.b64encode(user_info.encode()).decode()}"
    return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
