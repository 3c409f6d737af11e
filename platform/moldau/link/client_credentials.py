"""Tokens for logins of a node itself, from a provider: the grant client_credentials of OAuth 2.0
(RFC 6749, 4.4).

Invariants: a token is used for most of its life, so many connections ask the provider once. One
request is under way at a time. Neither `repr` nor an error shows the secret or a token.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from moldau.errors.codes import ErrorCode
from moldau.link.one_thread import OneThread
from moldau.link.sasl import LoginRefused, Work
from moldau.runtime.http_get import CannotGet, http_post_form

if TYPE_CHECKING:
    from moldau.config import Secret
    from moldau.runtime import Runtime

_TIMEOUT_S: Final = 5.0
_BYTES_MAX: Final = 1 << 16
_USED_SHARE: Final = 0.8
"""The share of a token's life after which new logins get a new one. Connections log in again a
little later, and before its end."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Where tokens are asked for, and as which client."""

    url: str
    client_id: str
    client_secret: Secret = field(repr=False)
    scope: str | None = None


class ProviderTokens:
    """The tokens of one client. Satisfies `TokenSource`."""

    def __init__(self, given: ClientCredentials, runtime: Runtime) -> None:
        self._given = given
        self._runtime = runtime
        self._token = b""
        self._good_until = runtime.clock.monotonic()
        self._thread = OneThread()

    async def __call__(self) -> str:
        """Return a token. Raise LoginRefused if the provider gives none."""
        return (await self._thread.result(self._runtime, Work(self._present))).decode()

    def _present(self) -> bytes:
        """Return the present token, or a new one. Runs in a thread, and never twice at once."""
        now = self._runtime.clock.monotonic()
        if now >= self._good_until:
            self._token, life_s = self._asked()
            self._good_until = now + life_s * _USED_SHARE
        return self._token

    def _asked(self) -> tuple[bytes, float]:
        """Return a new token and its seconds."""
        given = self._given
        form = {"grant_type": "client_credentials"}
        if given.scope:
            form["scope"] = given.scope
        pair = f"{quote_plus(given.client_id)}:{quote_plus(given.client_secret.reveal())}"
        headers = {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        try:
            answer = http_post_form(given.url, form, headers, _TIMEOUT_S, _BYTES_MAX)
            found = json.loads(answer)
            token, life_s = found["access_token"], float(found.get("expires_in") or 0)
        except CannotGet as error:
            raise self._refused(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._refused("its answer is no token") from None
        if not isinstance(token, str) or not token:
            raise self._refused("its answer is no token")
        return token.encode(), life_s

    def _refused(self, why: str) -> LoginRefused:
        return LoginRefused(
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "the provider of tokens gives none",
            url=self._given.url,
            client_id=self._given.client_id,
            why=why,
        )
