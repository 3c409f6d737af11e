"""Logins at an OpenID Connect provider: the authorization code flow, with PKCE, state and nonce.

1. `begin` makes the address at the provider, and what the browser must bring back (`Pending`).
2. The provider sends the browser back with a code.
3. `finish` exchanges the code for an ID token, from this server to the provider, and checks it: its
   signature by the provider's keys, issuer, audience, time (`moldau.link.login.signed_tokens`) and
   nonce.

Invariants: a token is in no address, log or page; only the user's name and groups outlive `finish`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from moldau.console.access.roles import Login
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.link.login.signed_tokens import TokenCheck, TokenRefused, TokenTerms, UnknownKey
from moldau.link.login.token_keys import KeyTiming, KeyUrl
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import HttpClient, NoAnswer, basic_login, check_url

if TYPE_CHECKING:
    from moldau.console.access.sessions import RandomBytes
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_DISCOVERY: Final = "/.well-known/openid-configuration"
_BYTES_MAX: Final = 1 << 20
_TIMING: Final = KeyTiming(refresh_s=3600, backoff=Backoff(5_000, 300_000))
_SECRET_BYTES: Final = 32
_OK: Final = 200
_REASON: Final = 80


class LoginFailed(MoldauError):
    """A login that cannot be made; the text says why, without a secret."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """What the provider knows this console by."""

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    roles_claim: str = "groups"
    user_claim: str = "sub"
    redirect_uri: str | None = None
    """None if it is made of the address that the browser asks for."""


@dataclass(frozen=True, slots=True)
class Provider:
    """What a discovery document says."""

    authorization_url: str
    token_url: str
    keys_url: str
    end_session_url: str | None
    takes_basic: bool
    has_groups: bool

    @classmethod
    def of(cls, document: bytes, issuer: str) -> Provider:
        """Read a document. Raise LoginFailed."""
        try:
            said: Any = json.loads(document)
            found = str(said["issuer"])
            begin, token = str(said["authorization_endpoint"]), str(said["token_endpoint"])
            keys = str(said["jwks_uri"])
            methods = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            takes_basic = "client_secret_basic" in methods
            has_groups = "groups" in (said.get("scopes_supported") or ())
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LoginFailed("the provider's discovery document is none", issuer=issuer) from None
        if found != issuer:
            raise LoginFailed("the provider names another issuer", issuer=issuer, named=found)
        for url in (begin, token, keys):
            fault = check_url(url)
            if fault is not None:
                raise LoginFailed(f"an address of the provider: {fault}", url=url)
        end = said.get("end_session_endpoint")
        return cls(
            begin,
            token,
            keys,
            end if isinstance(end, str) and check_url(end) is None else None,
            takes_basic,
            has_groups,
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A login that has begun: what the browser brings back, and what proves that it is the same."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    back: str
    """The page that was asked for."""

    @classmethod
    def new(cls, random_bytes: RandomBytes, redirect_uri: str, back: str) -> Pending:
        """Return one with new secrets."""
        state, nonce, verifier = (_text(random_bytes(_SECRET_BYTES)) for _ in range(3))
        return cls(state, nonce, verifier, redirect_uri, back)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def authorization_url(provider: Provider, client: OidcClient, pending: Pending) -> str:
    """Return the address at which the browser logs in."""
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": pending.redirect_uri,
        "scope": "openid profile email groups" if provider.has_groups else "openid profile email",
        "state": pending.state,
        "nonce": pending.nonce,
        "code_challenge": _text(hashlib.sha256(pending.verifier.encode()).digest()),
        "code_challenge_method": "S256",
    }
    sign = "&" if "?" in provider.authorization_url else "?"
    return f"{provider.authorization_url}{sign}{urlencode(query)}"


def groups_in(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the groups of a claim: a list, or words of a text. A name such as
    `realm_access.roles` is also that of a claim within another."""
    found: Any = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return frozenset(found.replace(",", " ").split())
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def login_from(claims: Mapping[str, Any], user: str, client: OidcClient, nonce: str) -> Login:
    """Return the login of a token, of which signature, issuer, audience and time are right. Raise
    LoginFailed if it is not the answer to this login."""
    if not hmac.compare_digest(
        str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()
    ):
        raise LoginFailed("the token answers another login")
    party = claims.get("azp", client.client_id)
    if party != client.client_id:
        raise LoginFailed("the token was made for another client")
    if client.user_claim == "email" and claims.get("email_verified") is False:
        raise LoginFailed("the provider has not verified the address of this user")
    return Login(user, groups_in(claims, client.roles_claim))


class Oidc:
    """The provider, as this console asks it."""

    def __init__(self, client: OidcClient, runtime: Runtime, log: Logger) -> None:
        self.client = client
        self._runtime = runtime
        self._http = HttpClient(runtime, bytes_max=_BYTES_MAX)
        self._log = log
        self._provider: Provider | None = None
        self._keys: KeyUrl | None = None

    async def provider(self) -> Provider:
        """Return the provider's addresses, which are read once. Raise LoginFailed."""
        if self._provider is None:
            url = f"{self.client.issuer.rstrip('/')}{_DISCOVERY}"
            try:
                document = await self._http.fetch(url)
            except NoAnswer as error:
                raise LoginFailed("the provider does not answer", url=url, why=str(error)) from None
            self._provider = Provider.of(document, self.client.issuer)
        return self._provider

    async def begin(self, pending: Pending) -> str:
        """Return the address at which the browser logs in. Raise LoginFailed."""
        return authorization_url(await self.provider(), self.client, pending)

    async def finish(self, code: str, pending: Pending) -> Login:
        """Return the login that a code of the provider stands for. Raise LoginFailed."""
        provider = await self.provider()
        token = await self._token(provider, code, pending)
        if self._keys is None:
            keys = KeyUrl(provider.keys_url, _TIMING, self._runtime, self._log)
            await keys.fetch()
            self._keys = keys
        client, clock = self.client, self._runtime.clock
        terms = TokenTerms(client.issuer, (client.client_id,), client.user_claim)
        check = TokenCheck(terms, self._keys, lambda: clock.wall_ms() / 1000)
        try:
            try:
                verified = check.verify(token)
            except UnknownKey:
                await self._keys.fetch()
                verified = check.verify(token)
        except TokenRefused as error:
            raise LoginFailed(str(error)) from None
        return login_from(verified.claims, verified.user, client, pending.nonce)

    async def _token(self, provider: Provider, code: str, pending: Pending) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
        }
        client = self.client
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if client.secret is not None and provider.takes_basic:
            names = (quote(each, safe="") for each in (client.client_id, client.secret))
            headers |= basic_login(*names)
        else:
            form["client_id"] = client.client_id
            if client.secret is not None:
                form["client_secret"] = client.secret
        body, url = urlencode(form).encode(), provider.token_url
        try:
            answer = await self._http.request("POST", url, body, headers)
        except NoAnswer as error:
            raise LoginFailed("the provider does not answer", url=url, why=str(error)) from None
        return _id_token(answer.status, answer.body)


def _id_token(status: int, body: bytes) -> str:
    try:
        said = json.loads(body)
        if status != _OK:
            raise LoginFailed(f"the provider refuses the code: {str(said['error'])[:_REASON]}")
        return str(said["id_token"])
    except (ValueError, KeyError, TypeError):
        raise LoginFailed(f"the provider answers without a token (HTTP {status})") from None
