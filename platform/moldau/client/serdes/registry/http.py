"""Requests to a registry, its answers, its addresses and its redirects.

Invariants: a redirect is followed only on the same host and scheme, because credentials are sent
along; credentials are in requests and never in errors.
"""

from __future__ import annotations

import base64
from dataclasses import field
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.runtime.http_client import HttpAnswer

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_PORTS: Final = {"http": 80, "https": 443}
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_IN_TARGETS: Final = "%/?:@!$&'()*+,;=~-._"
"""Characters that stay unquoted in the target of a request."""


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """The address of a registry. Its text does not show the user name and password of the URL."""

    scheme: str
    host: str
    port: int
    path: str
    user_info: str | None = field(default=None, repr=False, compare=False)

    @property
    def is_tls(self) -> bool:
        """Whether the scheme is https."""
        return self.scheme == "https"

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}{self.path}"


def parse_url(url: str) -> HttpAddress:
    """Return the address in a URL. Raise ConfigError, without the password, if there is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # what Python says of it may show a part of the password
        raise ConfigError(
            "no URL: its host or port is none; signs in a user or password are written as %XX, "
            "so / is %2F",
            setting="schema.registry.url",
        ) from None
    sent = f"{parts.hostname}{parts.path}"
    if not sent.isascii() or not sent.isprintable() or " " in sent:
        raise ConfigError(
            "no URL: it has a character that is written as %XX", setting="schema.registry.url"
        )
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError("no http:// or https:// address", setting="schema.registry.url")
    user_info = None
    if parts.username is not None:
        user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    port = _PORTS[parts.scheme] if port is None else port
    return HttpAddress(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), user_info)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `target` begins with a slash and includes the query."""

    method: str
    target: str
    body: bytes | None = None

    def headers(self, authorization: str | None) -> dict[str, str]:
        """Return the headers, except for the host and the length."""
        headers = {"User-Agent": "moldau", "Accept": f"{_JSON}, application/json; q=0.9"}
        if authorization is not None:
            headers["Authorization"] = authorization
        if self.body is not None:
            headers["Content-Type"] = _JSON
        return headers


def redirected(
    address: HttpAddress, request: HttpRequest, answer: HttpAnswer
) -> tuple[HttpAddress, HttpRequest] | None:
    """Return where a redirect leads; None if it must not be followed: only GET is redirected, and
    only on the same host and scheme, because credentials are sent along."""
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
    """Return the value of the Authorization header, or None without credentials."""
    if token is not None:
        return f"Bearer {token}"
    if user_info is not None:
        return f"Basic {base64.b64encode(user_info.encode()).decode()}"
    return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
