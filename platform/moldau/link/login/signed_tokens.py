"""Signed tokens (JWT), checked with public keys: the broker's OAUTHBEARER, the console's OIDC.

A token counts if one of the keys signed it by an asymmetric algorithm, it names the expected issuer
and audience, and it is valid now. Only a broker's settings `sasl.oauthbearer.allow.unverified.*`
leave out the check of the issuer or of the audience.

Invariants: tokens without a signature, and signatures by a shared secret, are refused whatever the
keys are (CVE-2026-33557). Without keys no token is accepted (CVE-2026-110985).
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
_USER_CHARACTERS_MAX: Final = 256
_KEYS_TRIED_MAX: Final = 16
_HEADER_CHARACTERS_MAX: Final = 1024
"""A longer header is not even read: it may nest too deeply."""
"""Of a token that names no key: each try costs a check of a signature."""


class TokenRefused(Exception):
    """A token does not count. The text says why, without a part of the token."""


class UnknownKey(TokenRefused):
    """The token names a key that is not there, which may be a new one."""


class VerifiedToken(NamedTuple):
    """What a token says."""

    user: str
    expires_at_s: float
    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """Which tokens count. None takes any issuer, or any audience and none."""

    issuer: str | None
    audiences: Sequence[str] | None
    user_claim: str = "sub"
    clock_skew_s: int = 30


def no_keys() -> Any:
    """Return an empty set of keys, with which every token is refused. Raise ConfigError if the
    library is not installed."""
    try:
        from joserfc.jwk import KeySet
    except ImportError as error:
        raise ConfigError(f"tokens need the package joserfc: {install_command('oauth')}") from error
    return KeySet([])


def key_set(text: str) -> Any:
    """Return the public keys of a JWKS. Raise ConfigError."""
    no_keys()
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        keys = KeySet.import_key_set(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError, JoseError) as error:
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

    def verify(self, token: str) -> VerifiedToken:
        """Return what the token says. Raise TokenRefused."""
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            claims = _signed_claims(token, self._keys())
        except InvalidKeyIdError:
            self._keys.on_unknown()
            raise UnknownKey("the token names a key that is not known") from None
        except (JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise TokenRefused(f"the token is not valid: {type(error).__name__}") from None
        terms = self._terms
        if terms.issuer is not None and claims.get("iss") != terms.issuer:
            raise TokenRefused("the token is of another issuer")
        if terms.audiences is not None and not _is_for(terms.audiences, claims.get("aud")):
            raise TokenRefused("the token is for another audience")
        expires_at_s = self._check_time(claims)
        user = claims.get(terms.user_claim)
        if not isinstance(user, str) or not 0 < len(user.strip()) <= _USER_CHARACTERS_MAX:
            raise TokenRefused(f"the token has no {terms.user_claim}")
        return VerifiedToken(user, expires_at_s, claims)

    def _check_time(self, claims: dict[str, Any]) -> float:
        now_s, skew_s = self.now_s(), self._terms.clock_skew_s
        expires_at_s = claims.get("exp")
        if not _is_time(expires_at_s):
            raise TokenRefused("the token does not say when it ends")
        if now_s >= expires_at_s + skew_s:
            raise TokenRefused("the token has expired")
        for name in ("nbf", "iat"):
            begins_s = claims.get(name)
            if begins_s is not None and (not _is_time(begins_s) or begins_s > now_s + skew_s):
                raise TokenRefused("the token is not valid yet")
        return expires_at_s


def _is_for(audiences: Sequence[str], named: object) -> bool:
    """Whether a token names one of the audiences."""
    found = [named] if isinstance(named, str) else named
    return isinstance(found, list) and any(each in found for each in audiences)


def _signed_claims(token: str, keys: Any) -> dict[str, Any]:
    """Return the claims of a token that one of the keys has signed: the one that it names, or any
    if it names none, as those of providers with a single key may. Raise JoseError or ValueError."""
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, JoseError

    segment = token.partition(".")[0]
    if len(segment) > _HEADER_CHARACTERS_MAX:
        raise ValueError
    header = json.loads(urlsafe_b64decode(segment + "=="))
    if "kid" in header:
        return jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
    for key in keys.keys[:_KEYS_TRIED_MAX]:
        try:
            return jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError):
            continue
    raise BadSignatureError


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
