"""HTTP/1.1 to a registry, without IO: requests to bytes and bytes to answers, on h11.

Invariants: an answer is bounded (`BODY_BYTES_MAX`), whatever it says of its length; a connection is
used again only when both sides have finished cleanly; credentials are in the request and in no
error.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin, urlsplit

from moldau.client.serdes.extras import need
from moldau.errors import ConfigError

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_JSON: Final = "application/vnd.schemaregistry.v1+json"
_PORTS: Final = {"http": 80, "https": 443}
REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_IN_TARGETS: Final = "%/?:@!$&'()*+,;=~-._"
"""What is left as it is in the target of a request."""


class HttpBroken(Exception):
    """The peer does not speak HTTP, or ended before its answer did."""


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


class HttpConnection:
    """The talk on one connection: one request after another."""

    def __init__(self, address: HttpAddress, authorization: str | None) -> None:
        self._h11: Any = need("h11", "schema-registry")
        self._address = address
        self._authorization = authorization
        self._talk = self._h11.Connection(our_role=self._h11.CLIENT)
        self._status = 0
        self._location: str | None = None
        self._body = bytearray()
        self._bytes_in = 0

    def ask(self, request: HttpRequest) -> bytes:
        """The bytes of a request; the last answer must have come whole."""
        if self._talk.our_state is self._h11.DONE:
            self._talk.start_next_cycle()
        self._status, self._location, self._body, self._bytes_in = 0, None, bytearray(), 0
        address = self._address
        headers = [
            ("Host", f"{_bracketed(address.host)}:{address.port}"),
            ("User-Agent", "moldau"),
            ("Accept", f"{_JSON}, application/json; q=0.9"),
        ]
        if self._authorization is not None:
            headers.append(("Authorization", self._authorization))
        body = request.body
        if body is not None:
            headers += [("Content-Type", _JSON), ("Content-Length", str(len(body)))]
        target = f"{address.path}{request.target}"
        events = [self._h11.Request(method=request.method, target=target, headers=headers)]
        if body is not None:
            events.append(self._h11.Data(data=body))
        events.append(self._h11.EndOfMessage())
        return b"".join(self._talk.send(event) for event in events)

    def receive(self, data: bytes) -> HttpAnswer | None:
        """Bytes came (none: the peer closed). The answer when it is whole; HttpBroken."""
        self._bytes_in += len(data)
        if self._bytes_in > BODY_BYTES_MAX:
            raise HttpBroken("the answer is too long")
        try:
            self._talk.receive_data(data)
            return self._next_answer()
        except self._h11.RemoteProtocolError as error:
            raise HttpBroken(str(error)) from error

    def _next_answer(self) -> HttpAnswer | None:
        while True:
            event = self._talk.next_event()
            if event is self._h11.NEED_DATA:
                return None
            if isinstance(event, self._h11.Response):
                self._status = event.status_code
                self._location = _location(event.headers)
            elif isinstance(event, self._h11.Data):
                self._body += event.data
            elif isinstance(event, self._h11.EndOfMessage):
                return HttpAnswer(self._status, bytes(self._body), self._location)
            elif isinstance(event, self._h11.ConnectionClosed):
                raise HttpBroken("the connection was closed")

    @property
    def is_reusable(self) -> bool:
        """Whether another request may follow."""
        done = self._h11.DONE
        return self._talk.our_state is done and self._talk.their_state is done


def _location(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name == b"location"), None)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
