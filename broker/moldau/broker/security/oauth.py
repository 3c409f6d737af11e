"""The server's side of OAUTHBEARER (RFC 7628): signed tokens (JWT), checked with public keys.

A token counts if one of the keys signed it by an asymmetric algorithm, it names the expected issuer
and audience, and it is valid now. There is no setting that leaves out one of these checks.

Invariants: tokens without a signature, and signatures by a shared secret, are refused whatever the
keys are (CVE-2026-33557). Without keys no token is accepted (CVE-2026-110985).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from moldau.broker.security.mechanism import LoginFailed
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command

OAUTHBEARER: Final = "OAUTHBEARER"
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<other>[^,\x00\x01]*))?,\x01auth=[Bb]earer (?P<token>[A-Za-z0-9._~+/=-]+)"
    rb"\x01(?:[A-Za-z]+=[^\x00\x01]*\x01)*\x01"
)
_REFUSED: Final = b'{"status":"invalid_token"}'
_END: Final = b"\x01"
_USER_CHARACTERS_MAX: Final = 256


class Verified(NamedTuple):
    """What a token says."""

    user: str
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """Which tokens count."""

    issuer: str
    audiences: Sequence[str]
    user_claim: str = "sub"
    clock_skew_s: int = 30


def no_keys() -> Any:
    """Return an empty set of keys, with which every token is refused. Raise ConfigError if the
    library is not installed."""
    try:
        from joserfc.jwk import KeySet
    except ImportError as error:
        raise ConfigError(
            f"OAUTHBEARER needs the package joserfc: {install_command('oauth')}"
        ) from error
    return KeySet([])


def key_set(text: str) -> Any:
    """Return the public keys of a JWKS. Raise ConfigError."""
    no_keys()
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        keys = KeySet.import_key_set(json.loads(text))
    except (ValueError, KeyError, TypeError, JoseError) as error:
        raise ConfigError("the keys are no JWKS: an object with a list `keys`") from error
    if not keys.keys:
        raise ConfigError("the JWKS has no keys")
    return keys


class Keys(Protocol):
    """The public keys of tokens."""

    def __call__(self) -> Any:
        """Return the present keys."""
        ...

    def on_unknown(self) -> None:
        """Called for a token that names a key which is not there."""
        ...


class TokenCheck:
    """Checks tokens. `keys` returns the present keys, `now_s` the time."""

    def __init__(self, terms: TokenTerms, keys: Keys, now_s: Callable[[], float]) -> None:
        self.now_s = now_s
        self._terms = terms
        self._keys = keys

    def verify(self, token: str) -> Verified:
        """Return what the token says. Raise LoginFailed, without a part of the token."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            claims = jwt.decode(token, self._keys(), algorithms=list(ALGORITHMS)).claims
        except InvalidKeyIdError:
            self._keys.on_unknown()
            raise LoginFailed("the token names a key that is not known") from None
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise LoginFailed(f"the token is not valid: {type(error).__name__}") from None
        terms = self._terms
        if claims.get("iss") != terms.issuer:
            raise LoginFailed("the token is of another issuer")
        named = claims.get("aud")
        audiences = [named] if isinstance(named, str) else named
        if not isinstance(audiences, list) or not any(
            each in audiences for each in terms.audiences
        ):
            raise LoginFailed("the token is for another audience")
        expires_at_s = self._check_time(claims)
        user = claims.get(terms.user_claim)
        if not isinstance(user, str) or not 0 < len(user.strip()) <= _USER_CHARACTERS_MAX:
            raise LoginFailed(f"the token has no {terms.user_claim}")
        return Verified(user, expires_at_s)

    def _check_time(self, claims: dict[str, Any]) -> float:
        now_s, skew_s = self.now_s(), self._terms.clock_skew_s
        expires_at_s = claims.get("exp")
        if not _is_time(expires_at_s):
            raise LoginFailed("the token does not say when it ends")
        if now_s >= expires_at_s + skew_s:
            raise LoginFailed("the token has expired")
        for name in ("nbf", "iat"):
            begins_s = claims.get(name)
            if begins_s is not None and (not _is_time(begins_s) or begins_s > now_s + skew_s):
                raise LoginFailed("the token is not valid yet")
        return expires_at_s


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class OAuthServer:
    """One login."""

    def __init__(self, check: TokenCheck) -> None:
        self.user = ""
        self.is_done = False
        self.is_by_token = False
        self.lifetime_ms: int | None = None
        self._check = check
        self._failure: LoginFailed | None = None

    def step(self, data: bytes) -> bytes:
        """Check the token. A refusal is told first, and fails with the client's next message."""
        if self._failure is not None:
            raise self._failure
        found = _FIRST.fullmatch(data)
        if found is None:
            raise LoginFailed("the message is malformed")
        try:
            verified = self._check.verify(found["token"].decode())
        except LoginFailed as failure:
            self._failure = failure
            return _REFUSED
        other = (found["other"] or b"").decode("utf-8", "replace")
        if other not in ("", verified.user):
            raise LoginFailed("a user cannot log in as another")
        self.user = verified.user
        self.lifetime_ms = max(1, int((verified.expires_at_s - self._check.now_s()) * 1000))
        self.is_done = True
        return b""
