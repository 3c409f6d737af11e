"""The protection of an HTTP server: TLS, client certificates, passwords and bearer tokens.

One file of settings protects any of them (Connect's REST API, Streams' queries, metrics, console,
registry):

    ssl.keystore.location=/etc/moldau/node.pem       # TLS
    ssl.truststore.location=/etc/moldau/ca.pem       # with ssl.client.auth=required: mTLS
    ssl.client.auth=required
    http.users.file=/etc/moldau/http-users           # basic: name=password, a line each
    http.tokens.file=/etc/moldau/http-tokens         # bearer: a token a line
    http.allowed.hosts=connect.example.com           # names that clients call the server by

Invariants: an unusable or empty file is an error at start, never an open server. Passwords and
tokens are compared in constant time, and shown nowhere.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.config import (
    LIST,
    STRING,
    GivenValue,
    Setting,
    Settings,
    SettingTable,
    Source,
    SourceKind,
    one_of,
    rows_in,
)
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.link.security_settings import SECURITY_ROWS
from moldau.link.tls import ReloadedContext, client_context, server_context, tls_files
from moldau.runtime.http_door import ALLOWED_HOSTS, DoorRules, listed_names
from moldau.runtime.places import absolute_path
from moldau.runtime.real_files import RealFiles

if TYPE_CHECKING:
    import ssl

    from moldau.runtime import Clock

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]

# fmt: off
http_users_file = Setting("http.users.file", STRING, None,
    doc="The users that may log in: name=password, a line each.")
http_tokens_file = Setting("http.tokens.file", STRING, None,
    doc="The bearer tokens that are let in, a line each.")
http_allowed_hosts = Setting(ALLOWED_HOSTS, LIST, (),
    doc="Further names by which clients reach the server: NAME, *.DOMAIN, or * for every name. The "
    "names of its address, of its machine and advertised ones are known.")
ssl_client_auth = Setting(
    "ssl.client.auth", STRING, "none", check=one_of("required", "requested", "none"),
    doc="Whether clients must show a certificate: required, requested or none.")
# fmt: on
_OWN: Final = rows_in(globals())
TABLE: Final = SettingTable(
    (*_OWN, *(each for each in SECURITY_ROWS if each.name.startswith("ssl.")))
)
"""The settings of an HTTP server's protection."""
CHALLENGE: Final = b'Basic realm="moldau"'
"""The header WWW-Authenticate of an answer 401."""
CHECKED: Final = "checked_authorization"
"""The key in the state of a request with the Authorization header that was found right."""
NEEDS_LOGIN: Final = "a user and password, or a bearer token, is needed"


@dataclass(frozen=True, slots=True)
class HttpProtection:
    """What a client must show before it is served."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: frozenset[str] = field(default_factory=frozenset, repr=False)
    context: Callable[[], ssl.SSLContext] | None = None
    asks_certificate: bool = False
    allowed_hosts: tuple[str, ...] = ()

    def rules(self, takes: Collection[str], names: Collection[str] = ()) -> DoorRules:
        """Return the rules of a server's door: the media types of its bodies, and the names that it
        is advertised by."""
        return DoorRules(takes, names, self.allowed_hosts)

    @property
    def scheme(self) -> str:
        return "http" if self.context is None else "https"

    @property
    def asks_login(self) -> bool:
        """Whether requests need an Authorization header."""
        return bool(self.users or self.tokens)

    @property
    def is_open(self) -> bool:
        """Whether every client is served."""
        return not (self.asks_login or self.asks_certificate)

    def admits(self, authorization: str) -> bool:
        """Whether an Authorization header is that of a user, or has a token."""
        kind, _, given = authorization.partition(" ")
        if kind.lower() == "bearer":
            return _is_among(given.strip(), self.tokens)
        if kind.lower() != "basic":
            return False
        try:
            name, colon, password = b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            return False
        expected = self.users.get(name)
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        return is_right and expected is not None and bool(colon)

    def guard(
        self, application: Any, is_exempt: Callable[[str, str], bool] = lambda method, path: False
    ) -> Any:
        """Return the application, which now answers 401 to requests without a login.
        The application finds the header that was checked in the state of the request (CHECKED).
        `is_exempt(method, path)` lets requests through that prove themselves in another way."""
        if not self.asks_login:
            return application

        async def guarded(scope: Scope, receive: Any, send: Any) -> None:
            is_request = scope["type"] == "http"
            if is_request and not is_exempt(scope["method"], scope["path"]):
                given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
                if not self.admits(given):
                    await _refuse(send)
                    return
                scope.setdefault("state", {})[CHECKED] = given
            await application(scope, receive, send)

        return guarded


async def _refuse(send: Any) -> None:
    body = f'{{"error_code":401,"message":"{NEEDS_LOGIN}"}}'.encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", CHALLENGE),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_among(given: str, known: frozenset[str]) -> bool:
    """Compare with every one, so that the time tells nothing."""
    text = given.encode()
    return any([hmac.compare_digest(text, each.encode()) for each in known])  # noqa: C419


def open_to_all(protection: HttpProtection, host: str) -> bool:
    """Whether a server at this address serves every client of the network."""
    return protection.is_open and host not in ("127.0.0.1", "localhost", "::1")


def load_protection(path: str, clock: Clock) -> HttpProtection:
    """Return the protection that a file of settings describes. Raise ConfigError."""
    return protection_of(_given_in(path), clock, path)


def load_peer_context(path: str, clock: Clock) -> Callable[[], ssl.SSLContext] | None:
    """Return the TLS context of requests to other servers with the same file of settings: it shows
    this server's certificate, and trusts `ssl.truststore.location`, else the authorities of the
    system. Return None without TLS. Raise ConfigError."""
    tls = tls_files(_resolved(_given_in(path), path))
    return (
        ReloadedContext(partial(client_context, tls), tls, clock) if tls.keystore.is_given else None
    )


def _given_in(path: str) -> dict[str, str]:
    from moldau.config import load_file

    given = load_file(RealFiles(), absolute_path(path), otherwise=".properties")
    return {each.name: str(each.value) for each in given}


def _resolved(given: Mapping[str, str], where: str) -> Settings:
    source = Source(SourceKind.FILE, where)
    return TABLE.resolve(tuple(GivenValue(name, text, source) for name, text in given.items()))


def protection_of(
    given: Mapping[str, str], clock: Clock, where: str = "settings"
) -> HttpProtection:
    """Return the protection of settings by their names. Raise ConfigError."""
    settings = _resolved(given, where)
    tls = tls_files(settings)
    allowed = listed_names(",".join(settings[http_allowed_hosts]))
    found = HttpProtection(allowed_hosts=tuple(allowed))
    users, tokens = settings[http_users_file], settings[http_tokens_file]
    if users is not None:
        found = replace(found, users=users_in(users, http_users_file.name))
    if tokens is not None:
        found = replace(found, tokens=_tokens_in(tokens))
    if not tls.keystore.is_given:
        if settings[ssl_client_auth] != "none":
            raise ConfigError(
                "certificates of clients need TLS: give ssl.keystore.location",
                setting=ssl_client_auth.name,
            )
        return found
    asks = settings[ssl_client_auth]
    context = ReloadedContext(partial(server_context, tls, asks), tls, clock)
    return replace(found, context=context, asks_certificate=asks == "required")


def users_in(path: str, setting: str) -> dict[str, str]:
    """Return the users of a file of `name=password` lines, and raise ConfigError without any."""
    from moldau.config.properties import parse_properties

    text = _text_of(path, setting)
    users = {each.key: each.value for each in parse_properties(text, path)}
    if not users or "" in users.values():
        raise ConfigError("it needs name=password, a line each", setting=setting, path=path)
    return users


def _tokens_in(path: str) -> frozenset[str]:
    lines = [each.strip() for each in _text_of(path, http_tokens_file.name).splitlines()]
    tokens = frozenset(each for each in lines if each and not each.startswith("#"))
    if not tokens:
        raise ConfigError("it has no token", setting=http_tokens_file.name, path=path)
    return tokens


def _text_of(path: str, setting: str) -> str:
    try:
        return RealFiles().read_text(absolute_path(path))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError("it cannot be read", setting=setting, path=path, why=why) from error
