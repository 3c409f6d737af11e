"""The door of every HTTP server: it refuses what a page of another site sends with the browser of
its visitor.

A browser sends requests of any page to any address that its machine reaches: to localhost, and to
servers behind a firewall. No login stops that where a server has none. Four things tell them apart:

1. `Host`. A site may let its own name lead to this server (DNS rebinding), and then its pages count
   as the server's own. Their requests still carry that name, so a name must be one of the server's:
   of its address, of its machine, advertised or allowed. An IP address needs no name server, and
   so cannot be rebound: behind a wildcard address any of them is good (of a pod, of the machine in
   front of a container).
2. `Origin`, which a browser adds to each request that changes something: it must be the server
   itself, or a site that the settings allow (CORS).
3. `Sec-Fetch-Site`, which says where a request without an origin comes from. A link on another site
   may lead to a page here; that site cannot read it.
4. `Content-Type`. A page may send text and forms anywhere without a question before; what takes
   JSON takes JSON alone.

Programs (curl, clients, probes) send neither 2 nor 3, so they notice nothing.

Invariant: `decide` is a function of the request's head and the rules; no application runs for what
it refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, TypeAlias

from moldau.deferred import dataclass, deferred_pattern

Headers = Sequence[tuple[bytes, bytes]]

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
OCTETS: Final = "application/octet-stream"
NO_BODY: Final[frozenset[str]] = frozenset()
"""What a server takes that answers questions only."""
ALLOWED_HOSTS: Final = "http.allowed.hosts"
"""The setting with further names of a server."""
ALLOWED_HOSTS_VARIABLE: Final = "MOLDAU_HTTP_ALLOWED_HOSTS"
"""The variable with the same, for all servers of a process."""
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
EVERY: Final = "*"
WILDCARDS: Final = frozenset(("", "0.0.0.0", "::", EVERY))  # noqa: S104 - compared, not bound
_LOCALHOST: Final = "localhost"
_READS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_PORTS: Final = {"http": "80", "https": "443"}
_AUTHORITY: Final = deferred_pattern(r"(\[[0-9A-Fa-f:.%]+\]|[^:/@\[\]\s]+)(?::([0-9]*))?")


@dataclass(frozen=True, slots=True)
class DoorRules:
    """What one server lets in."""

    takes: Collection[str]
    """The media types of bodies; OCTETS also for those without one, as in Java."""
    names: Collection[str] = ()
    """The names of the server, in lower case; its IP addresses among them."""
    allowed: Collection[str] = ()
    """Further names by settings, such as that of a proxy: NAME, *.DOMAIN, or * for every name."""
    origins: Collection[str] = ()
    """The sites whose pages may call the server, as `https://host`; * for all."""
    is_wildcard: bool = False
    """Whether it listens at all addresses of its machine."""
    has_sessions: bool = False
    """Whether a cookie is a login. Then a change needs a header that says where it is from."""
    body_bytes_max: int = BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class DoorRefusal:
    """The answer to a request that is not let in."""

    status: int
    text: str


OnRefusal: TypeAlias = Callable[[Any, DoorRefusal], None]


def decide(method: str, headers: Headers, rules: DoorRules) -> DoorRefusal | None:
    """Return why a request is not let in, None if it is."""
    return (
        _host_fault(headers, rules)
        or _site_fault(method, headers, rules)
        or _body_fault(headers, rules)
    )


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in headers if key == name]


def _value(headers: Headers, name: bytes) -> str | None:
    return next(iter(_values(headers, name)), None)


# --- host -----------------------------------------------------------------------------------------


def _host_fault(headers: Headers, rules: DoorRules) -> DoorRefusal | None:
    """Return the fault of the name that the client calls the server by. Programs that send none
    are no browsers."""
    hosts = _values(headers, b"host")
    if not hosts:
        return None
    found = _AUTHORITY.fullmatch(hosts[0])
    if found is None or len(hosts) > 1:
        return DoorRefusal(403, f"the header Host must have one name: {', '.join(hosts)}")
    name = host_name(found[1])
    if _is_own_name(name, rules):
        return None
    return DoorRefusal(
        403,
        f"this server is not reached by the name {name}: if it is the server's, add it to "
        f"{ALLOWED_HOSTS} in the file of HTTP settings, or to {ALLOWED_HOSTS_VARIABLE}",
    )


def host_name(host: str) -> str:
    """Return a host as names are compared: without brackets and a final dot, in lower case."""
    name = host.strip("[]").lower().removesuffix(".")
    address = _address(name)
    return name if address is None else str(address)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _is_own_name(name: str, rules: DoorRules) -> bool:
    if name == _LOCALHOST or name in rules.names or is_allowed_name(name, rules.allowed):
        return True
    address = _address(name)
    return address is not None and (address.is_loopback or rules.is_wildcard)


def listed_names(text: str) -> list[str]:
    """Return the names of a setting, which stand between commas."""
    return [host_name(each.strip()) for each in text.split(",") if each.strip()]


def is_allowed_name(name: str, allowed: Collection[str]) -> bool:
    """Whether a name is among names of settings."""
    return any(
        each in (EVERY, name) or (each.startswith("*.") and name.endswith(each[1:]))
        for each in allowed
    )


# --- site -----------------------------------------------------------------------------------------


def _site_fault(method: str, headers: Headers, rules: DoorRules) -> DoorRefusal | None:
    """Return the fault of the page that sends a request."""
    origin, site = _value(headers, b"origin"), _value(headers, b"sec-fetch-site")
    if origin is not None and (EVERY in rules.origins or origin in rules.origins):
        return None
    if origin is not None and not _is_own_origin(origin, headers, rules):
        return _of_another_site(origin)
    if site == "cross-site" and EVERY not in rules.origins and not _is_link(method, headers):
        return _of_another_site(origin)
    if method in _READS:
        return None
    if site == "same-site":
        return _of_another_site(origin)
    is_by_cookie = _value(headers, b"cookie") and not _value(headers, b"authorization")
    if rules.has_sessions and is_by_cookie and origin is None and site is None:
        return _of_another_site(origin)
    return None


def _of_another_site(origin: str | None) -> DoorRefusal:
    where = "" if origin is None else f": {origin}"
    return DoorRefusal(403, f"the request came from another site{where}")


def _is_own_origin(origin: str, headers: Headers, rules: DoorRules) -> bool:
    """Whether an origin is the server, by the name that the request has or by an allowed one."""
    scheme, _, authority = origin.partition("://")
    found = _AUTHORITY.fullmatch(authority)
    default = _PORTS.get(scheme)
    if found is None or default is None:
        return False
    called = _AUTHORITY.fullmatch(_value(headers, b"host") or "")
    name, port = host_name(found[1]), found[2] or default
    if called is not None and (host_name(called[1]), called[2] or default) == (name, port):
        return True
    own = [each for each in rules.allowed if each != EVERY]
    return port == default and is_allowed_name(name, own)


def _is_link(method: str, headers: Headers) -> bool:
    """Whether a browser shows the answer as a page of its own, outside of a frame."""
    is_page = _value(headers, b"sec-fetch-dest") == "document"
    return is_page and method in _READS and _value(headers, b"sec-fetch-mode") == "navigate"


# --- body -----------------------------------------------------------------------------------------


def _body_fault(headers: Headers, rules: DoorRules) -> DoorRefusal | None:
    length = _value(headers, b"content-length")
    if length in (None, "0") and _value(headers, b"transfer-encoding") is None:
        return None
    if length is not None and length.isdecimal() and int(length) > rules.body_bytes_max:
        return too_large(rules.body_bytes_max)
    kinds = {each.partition(";")[0].strip().lower() for each in _values(headers, b"content-type")}
    if not rules.takes:
        return DoorRefusal(415, "no request to this server has a body")
    if (kinds or {OCTETS}) <= set(rules.takes):
        return None
    given, taken = ", ".join(sorted(kinds)) or "of no type", " or ".join(rules.takes)
    return DoorRefusal(415, f"the body is {given}: send Content-Type: {taken}")


def too_large(limit: int) -> DoorRefusal:
    return DoorRefusal(413, f"The body has more than {limit} bytes")


# --- the shell ------------------------------------------------------------------------------------


class _BodyTooLarge(Exception):
    """A body of unknown length has turned out to be larger than a server takes."""


def behind_door(application: Any, rules: DoorRules, on_refusal: OnRefusal | None = None) -> Any:
    """Return the ASGI application behind the door. `on_refusal` gets the scope of each request that
    is not let in, before it is answered."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        refusal = decide(scope["method"], scope["headers"], rules)
        if refusal is not None:
            if on_refusal is not None:
                on_refusal(scope, refusal)
            await _refuse(send, refusal)
            return
        body = _BoundedBody(receive, send, rules.body_bytes_max)
        try:
            await application(scope, body.receive, body.send)
        except _BodyTooLarge:
            if not body.is_answered:
                await body.send({"type": "http.response.start", "status": 413})

    return guarded


class _BoundedBody:
    """Counts the body of one request. What an application answers to a body that is too large is
    replaced: only the door knows the cause."""

    def __init__(self, receive: Any, send: Any, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._left = limit
        self.is_answered = False

    async def receive(self) -> Any:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _BodyTooLarge
        return message

    async def send(self, message: Any) -> None:
        if self._left >= 0:
            self.is_answered = True
            await self._send(message)
        elif not self.is_answered:
            self.is_answered = True
            await _refuse(self._send, too_large(self._limit))


async def _refuse(send: Any, refusal: DoorRefusal) -> None:
    body = json.dumps({"error_code": refusal.status, "message": refusal.text}).encode()
    headers = [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
