"""The server's side of SCRAM (RFC 5802, RFC 7677). Pure: salts, nonces and credentials are given.

A user that does not exist is answered like one that does: with a salt that depends on the name
alone, so that it is the same each time, and a proof that is never right.

Invariants: the client's last message has the whole nonce of this login (CVE-2024-56128). A client
logs in as itself only (CVE-2017-12610). Keys are compared in constant time (CVE-2021-38153). What
the first message found must be there still at the last one, and the time of a token counts then.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Protocol

from moldau.broker.security.delegation import TokenLogin
from moldau.broker.security.mechanism import LoginFailed
from moldau.deferred import deferred_pattern
from moldau.protocol.scram import ITERATIONS_MIN, SALT_BYTES, ScramMechanism

_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_FIRST: Final = deferred_pattern(
    rf"(?P<header>[ny],(?:a=(?P<other>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[^,]*)*))"
)
_FINAL: Final = deferred_pattern(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[a-zA-Z]+=[^,]*)*?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_WRONG: Final = "wrong user or password"
_WRONG_OR_OTHER_KEY: Final = (
    "wrong user or password: the token's password is wrong, or the token was made with another "
    "delegation.token.secret.key than this node has"
)
_GONE: Final = "the user or token was removed, changed or expired during the login"
_BY_TOKEN: Final = "tokenauth=true"  # noqa: S105 - an extension's name


class Credential(Protocol):
    """What a server keeps of a user's password."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


class _Nobody:
    """The credential of a user that does not exist."""

    def __init__(self, mechanism: ScramMechanism, user: str, secret: bytes) -> None:
        def derived(purpose: bytes) -> bytes:
            return hmac.digest(secret, purpose + user.encode(), mechanism.digest)

        self.salt = derived(b"salt")[:SALT_BYTES]
        self.stored_key = derived(b"stored key")
        self.server_key = derived(b"server key")
        self.iterations = ITERATIONS_MIN


def _no_token(token_id: str) -> TokenLogin | None:
    """Find no token: there are none."""
    return None


class ScramServer:
    """One login, with a password or with a delegation token."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], Credential | None],
        nonce: str,
        secret: bytes,
        find_token: Callable[[str], TokenLogin | None] = _no_token,
    ) -> None:
        """`nonce` is random and used once; `secret` is random and the node's own."""
        self.user = ""
        self.is_by_token = False
        self.is_done = False
        self.lifetime_ms: int | None = None
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._is_token = False
        self._token: TokenLogin | None = None
        self._nonce = nonce
        self._secret = secret
        self._header = ""
        self._begun = ""
        """The first messages of both sides, once they exist."""
        self._is_known = False
        self._credential: Credential | None = None

    def step(self, data: bytes) -> bytes:
        """Take the client's first or last message, and return the server's."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise LoginFailed("the message is not UTF-8") from None
        if self.is_done:
            raise LoginFailed("the login is over")
        return self._last(text) if self._begun else self._first(text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise LoginFailed("the first message is malformed")
        self.user = _unescaped(found["user"])
        if found["other"] is not None and _unescaped(found["other"]) != self.user:
            raise LoginFailed("a user cannot log in as another")
        if _BY_TOKEN in found["extensions"].lower().split(","):
            self._is_token = True
        known = self._find_known()
        self._is_known = known is not None
        credential = known or _Nobody(self._mechanism, self.user, self._secret)
        self._credential = credential
        self._header, self._nonce = found["header"], found["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._begun = f"{found['bare']},{answer}"
        return answer.encode()

    def _find_known(self) -> Credential | None:
        """Return the credential of the token or user, as it is now."""
        if not self._is_token:
            return self._find(self.user)
        self._token = token = self._find_token(self.user)
        return None if token is None else token.credential

    def _last(self, text: str) -> bytes:
        credential = self._credential
        assert credential is not None
        found = _FINAL.fullmatch(text)
        if found is None:
            raise LoginFailed("the last message is malformed")
        # Older librdkafka sends its own nonce once more before it, which Kafka accepts too.
        if not found["nonce"].endswith(self._nonce):
            raise LoginFailed("the nonce is not that of this login")
        if _decoded(found["binding"]) != self._header.encode():
            raise LoginFailed("the channel binding is not that of the first message")
        signed = f"{self._begun},{found['bare']}".encode()
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, signed, digest)
        proof = _decoded(found["proof"])
        if len(proof) != len(signature):
            raise LoginFailed("the proof has a wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(digest, client_key).digest()
        is_right = hmac.compare_digest(stored_key, credential.stored_key)
        if not is_right or not self._is_known:
            raise LoginFailed(_WRONG if self._token is None else _WRONG_OR_OTHER_KEY)
        again = self._find_known()
        if again is None or again.stored_key != credential.stored_key:
            raise LoginFailed(_GONE)
        self.is_done = True
        if self._token is not None:
            self.user, self.lifetime_ms = self._token.owner, self._token.lifetime_ms
            self.is_by_token = True
        verifier = hmac.digest(credential.server_key, signed, digest)
        return b"v=" + base64.b64encode(verifier)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginFailed("a part of the message is not base64") from None
