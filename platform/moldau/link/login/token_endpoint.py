"""The token endpoint of an OAuth provider: a request for a token, and what its answer says. No IO.

    TokenEndpoint.keycloak("https://id.example.com", "shop", client_id="...", client_secret="...")
    TokenEndpoint.entra("contoso.example", client_id="...", client_secret="...", scope="...")
    TokenEndpoint("https://id.example.com/token", client_id="orders", client_secret="...")

A client asks with its id and its secret (RFC 6749, 4.4), or shows a signed assertion in place of
the secret or as the grant itself (RFC 7523).

Invariants: secrets are in a request's header or form and nowhere else: no `repr` and no error shows
one. Of an answer, errors show what RFC 6749 has for them (`error`, `error_description`) and nothing
else. A token is asked for over https, or on this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from moldau.config import Secret
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.oauth_settings import ENTRA, KEYCLOAK
from moldau.link.login.sasl import LoginRefused
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.link.login.assertions import Assertion
    from moldau.link.tls import TlsFiles

URL: Final = "sasl.oauthbearer.token.endpoint.url"
ENTRA_HOST: Final = "https://login.microsoftonline.com"
_KEYCLOAK_PATH: Final = "protocol/openid-connect/token"
_ENTRA_PATH: Final = "oauth2/v2.0/token"
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FOR_GOOD: Final = (501, 505)
_FOR_NOW: Final = (408, 425, 429)
_SHOWN_MAX: Final = 300
_TIMEOUT_S: Final = 10.0
_EXTENSION_NAME: Final = deferred_pattern(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = deferred_pattern(r"[\x20-\x7e\t\r\n]*")
_EVENT_HUBS: Final = deferred_pattern(
    r"([a-z0-9.-]+\.servicebus\.[a-z0-9.]+):[0-9]+", re.IGNORECASE
)


class TokenTiming(NamedTuple):
    """How long a token endpoint is waited for, and when a token is replaced."""

    connect_s: float = _TIMEOUT_S
    read_s: float = _TIMEOUT_S
    backoff: Backoff = Backoff(100, 10_000)
    """The pauses between attempts. All attempts of a login together take its longest wait."""
    fresh_part: float = 0.8
    """The part of a token's life after which logins ask for a new one."""


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where the tokens of a client come from, and what it asks with."""

    url: str
    client_id: str | None = None
    client_secret: Secret | str | None = field(default=None, repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is sent to brokers beside the token."""
    encodes_header: bool = False
    """Whether id and secret are encoded as RFC 6749 wants it; some providers do not decode them."""
    assertion: Assertion | None = None
    """What is shown instead of a secret."""
    is_grant: bool = False
    """Whether the assertion is the grant itself (jwt-bearer)."""
    tls: TlsFiles | None = field(default=None, repr=False)
    """The encryption of the endpoint; None trusts the authorities of the system."""
    timing: TokenTiming = field(default=TokenTiming(), repr=False)
    is_entra: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Check that a request can be made. Raise ConfigError."""
        if self.url.lower().startswith("file:"):
            raise ConfigError(
                "tokens are not read from a file: give oauth=, an async function that reads it",
                setting=URL,
            )
        from moldau.runtime.http_client import check_url

        fault = check_url(self.url)
        if fault is not None:
            raise ConfigError(fault, setting=URL, value=shown_url(self.url))
        if isinstance(self.client_secret, str):
            object.__setattr__(self, "client_secret", Secret(self.client_secret))
        if self.is_grant and self.assertion is None:
            raise ConfigError(
                "JwtBearerJwtRetriever needs an assertion: give "
                "sasl.oauthbearer.assertion.private.key.file, or sasl.oauthbearer.assertion.file"
            )
        if self.assertion is None and not (self.client_id and self.client_secret):
            raise ConfigError(
                "a token endpoint asks for a client's id and secret: give both of "
                "sasl.oauthbearer.client.credentials.client.id and "
                "sasl.oauthbearer.client.credentials.client.secret, or clientId= and "
                "clientSecret= in sasl.jaas.config",
            )
        check_extensions(self.extensions)

    @classmethod
    def keycloak(
        cls, url: str, realm: str, *, client_id: str, client_secret: Secret | str, **others: Any
    ) -> Self:
        """Return the endpoint of a realm of the Keycloak at `url`. `others` are fields."""
        issuer = f"{url.rstrip('/')}/realms/{_quoted(realm)}"
        given = {"client_id": client_id, "client_secret": client_secret, **others}
        return cls.of_keycloak(issuer, **given)

    @classmethod
    def entra(
        cls, tenant: str, *, client_id: str, client_secret: Secret | str, **others: Any
    ) -> Self:
        """Return the endpoint of a tenant of Microsoft Entra ID. Without a `scope` the brokers must
        be those of Event Hubs. `others` are fields."""
        given = {"client_id": client_id, "client_secret": client_secret, **others}
        return cls.of_entra(f"{ENTRA_HOST}/{_quoted(tenant)}/v2.0", **given)

    @classmethod
    def of_keycloak(cls, issuer: str, **fields: Any) -> Self:
        """Return the endpoint of an issuer of Keycloak."""
        return cls(known_url(KEYCLOAK, issuer), **{"encodes_header": True, **fields})

    @classmethod
    def of_entra(cls, issuer: str, **fields: Any) -> Self:
        """Return the endpoint of an issuer of Microsoft Entra ID."""
        return cls(known_url(ENTRA, issuer), **{"encodes_header": True, "is_entra": True, **fields})

    def scope_for(self, bootstrap: str) -> str | None:
        """Return the scope of tokens for these brokers. Raise LoginRefused if there must be one."""
        if self.scope or not self.is_entra:
            return self.scope
        found = _EVENT_HUBS.match(bootstrap)
        if found is None:
            raise LoginRefused(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                "Entra needs a scope: give sasl.oauthbearer.scope=api://APPLICATION/.default",
            )
        return f"https://{found[1].lower()}/.default"


def known_url(provider: str, issuer: str) -> str:
    """Return the token endpoint of an issuer of Keycloak or Entra."""
    base = issuer.rstrip("/")
    if provider == KEYCLOAK:
        return f"{base}/{_KEYCLOAK_PATH}"
    assert provider == ENTRA, provider
    return f"{base.removesuffix('/v2.0')}/{_ENTRA_PATH}"


class TokenForm(NamedTuple):
    """A request for a token."""

    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return "<TokenForm>"


class IssuedToken(NamedTuple):
    """What a provider has answered."""

    value: str
    lifetime_s: float | None
    """How long it is valid; None if that is not known."""

    def __repr__(self) -> str:
        return f"<IssuedToken lifetime_s={self.lifetime_s}>"


def token_form(endpoint: TokenEndpoint, scope: str | None, assertion: str | None) -> TokenForm:
    """Return the request. `assertion` is the one to show."""
    from urllib.parse import urlencode

    headers = {
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    fields: dict[str, str] = {}
    if assertion is None:
        headers["Authorization"] = _basic(endpoint)
        fields["grant_type"] = "client_credentials"
    elif endpoint.is_grant:
        fields |= {"grant_type": _JWT_BEARER, "assertion": assertion}
    else:
        fields |= {"grant_type": "client_credentials", "client_assertion_type": _ASSERTION}
        fields["client_assertion"] = assertion
        if endpoint.client_id:
            fields["client_id"] = endpoint.client_id
    if scope:
        fields["scope"] = scope
    return TokenForm(headers, urlencode(fields).encode())


def _basic(endpoint: TokenEndpoint) -> str:
    from base64 import b64encode

    secret = endpoint.client_secret
    assert endpoint.client_id is not None
    assert isinstance(secret, Secret)
    pair = (endpoint.client_id, secret.reveal())
    if endpoint.encodes_header:
        from urllib.parse import quote_plus

        pair = (quote_plus(pair[0]), quote_plus(pair[1]))
    return "Basic " + b64encode(":".join(pair).encode()).decode()


def issued_token(status: int, body: bytes, url: str) -> IssuedToken:
    """Return the token of an answer. Raise LoginRefused if the provider refuses the client, or
    KafkaError that can be retried if it cannot answer now."""
    said = _object_in(body)
    if status not in (200, 201):
        why = f"the token endpoint {shown_url(url)} gives no token{_error_in(said)}"
        if status in _FOR_NOW or (status >= 500 and status not in _FOR_GOOD):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, why, status=status)
        raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, why, status=status)
    value = said.get("access_token")
    if not isinstance(value, str) or not value.strip():
        raise LoginRefused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "the token endpoint's answer has no access_token",
            url=shown_url(url),
        )
    value = value.strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise LoginRefused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "the token endpoint's answer has no token that can be sent",
            url=shown_url(url),
        )
    return IssuedToken(value, _lifetime_s(said, value))


def shown_url(url: str) -> str:
    """Return a URL without what may be secret in it: its user and its query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL that is none"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Check what is sent beside a token (RFC 7628). Raise ConfigError."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            raise ConfigError("the name of an extension has letters alone", extension=name)
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError("an extension has a character that cannot be sent", extension=name)


def _object_in(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _error_in(said: Mapping[str, Any]) -> str:
    """Return the reason as RFC 6749 has it, with a colon before it; empty if there is none."""
    words = [
        said[name] for name in ("error", "error_description") if isinstance(said.get(name), str)
    ]
    text = " ".join(": ".join(words).split())
    shown = "".join(each for each in text if each.isprintable())
    return f": {shown[:_SHOWN_MAX]}" if shown else ""


def _lifetime_s(said: Mapping[str, Any], value: str) -> float | None:
    """Return how long the token is valid: as the answer says, else as the token does. Both are
    spans of the provider's clock, so that a clock here which is wrong does not count."""
    span = _number(said.get("expires_in"))
    if span is not None:
        return max(span, 0.0)
    from base64 import urlsafe_b64decode

    part = (*value.split("."), "")[1]
    try:
        claims = _object_in(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return None
    ends, begins = _number(claims.get("exp")), _number(claims.get("iat"))
    return None if ends is None or begins is None else max(ends - begins, 0.0)


def _number(value: object) -> float | None:
    """Return a number of JSON; some providers write it as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    return None


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
