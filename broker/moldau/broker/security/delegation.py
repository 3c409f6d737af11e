"""The secrets of delegation tokens, and the login with one (KIP-48).

The password of a token is the base64 form of an HMAC of the token's id, with a key that all nodes
of the cluster have in their settings and that is not in the metadata log. So a node derives what a
login needs, and the log and its snapshots do not suffice to log in.

Invariants: no login with an expired token, although it is removed later. `repr` shows no secret.
The salt of a token's SCRAM credential depends on the token alone, so a client that goes from broker
to broker derives its key once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.broker.settings.security import delegation_token_secret_key
from moldau.deferred import dataclass
from moldau.protocol.scram import (
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    salted_password,
    server_keys,
)

if TYPE_CHECKING:
    from moldau.config import Secret, Settings

_DIGEST: Final = "sha512"
_SALT: Final = b"salt of a delegation token"


class Token(Protocol):
    """What a login needs to know of a token in the metadata."""

    @property
    def owner(self) -> str: ...
    @property
    def expiration_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """The SCRAM credential of a token."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = ITERATIONS_MIN


class TokenLogin(NamedTuple):
    """What a login with a token gives."""

    owner: str
    """The name of the user that the client becomes."""
    lifetime_ms: int
    """How long the token is still valid."""
    credential: TokenCredential


def token_secret_of(settings: Settings) -> Secret | None:
    """Return the key that delegation tokens are signed with; None if there are no tokens."""
    secret = settings[delegation_token_secret_key]
    return secret if secret is not None and secret.reveal() else None


def token_hmac(secret: Secret, token_id: str) -> bytes:
    """Return the HMAC of a token, as Kafka computes it."""
    return hmac.digest(secret.reveal().encode(), token_id.encode(), _DIGEST)


def is_expired(token: Token, now_ms: int) -> bool:
    """Whether the time of a token is over."""
    return token.expiration_timestamp < now_ms or token.max_timestamp < now_ms


def token_credential(hmac_of_token: bytes, mechanism: ScramMechanism) -> TokenCredential:
    """Derive the credential of a token. It takes about a millisecond."""
    salt = hmac.digest(hmac_of_token, _SALT, _DIGEST)[:SALT_BYTES]
    password = base64.b64encode(hmac_of_token).decode()
    keys = server_keys(mechanism, salted_password(mechanism, password, salt, ITERATIONS_MIN))
    return TokenCredential(salt, keys.stored_key, keys.server_key)


class TokenIndex:
    """Finds a token by its HMAC, which is how clients name it to renew or end it."""

    def __init__(self, secret: Secret) -> None:
        self.secret = secret
        self._ids: dict[bytes, str] = {}
        self._known: set[str] = set()

    def find(self, hmac_of_token: bytes, token_ids: Collection[str]) -> str | None:
        """Return the id of the token among `token_ids`; None if there is none with this HMAC."""
        key = _key(hmac_of_token)
        found = self._ids.get(key)
        if found is None:
            if len(self._known) > 2 * len(token_ids):
                self._ids.clear()  # drops removed tokens
                self._known.clear()
            for each in token_ids:
                if each not in self._known:
                    self._known.add(each)
                    self._ids[_key(token_hmac(self.secret, each))] = each
            found = self._ids.get(key)
        return found if found is not None and found in token_ids else None


def _key(hmac_of_token: bytes) -> bytes:
    """Return what an HMAC is looked up by: no part of it, so that the time tells nothing."""
    return hashlib.sha256(hmac_of_token).digest()


class TokenLogins:
    """The logins with tokens at one node."""

    def __init__(
        self,
        secret: Secret,
        tokens: Callable[[], Mapping[str, Token]],
        wall_ms: Callable[[], int],
    ) -> None:
        """`tokens` returns those in the metadata by their id."""
        self._secret = secret
        self._tokens = tokens
        self._wall_ms = wall_ms
        self._credentials: dict[tuple[str, ScramMechanism], TokenCredential] = {}

    def find(self, token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        """Return what a login with the token gives; None if there is no such token now."""
        tokens = self._tokens()
        token = tokens.get(token_id)
        if token is None or is_expired(token, now_ms := self._wall_ms()):
            return None
        end_ms = min(token.expiration_timestamp, token.max_timestamp)
        _, _, name = token.owner.partition(":")
        credential = self._credential(token_id, mechanism, len(tokens))
        return TokenLogin(name, max(1, end_ms - now_ms), credential)

    def _credential(
        self, token_id: str, mechanism: ScramMechanism, token_count: int
    ) -> TokenCredential:
        known = self._credentials.get((token_id, mechanism))
        if known is None:
            if len(self._credentials) > 4 * token_count:
                self._credentials.clear()  # drops those of removed tokens
            known = token_credential(token_hmac(self._secret, token_id), mechanism)
            self._credentials[token_id, mechanism] = known
        return known
