"""The server's side of OAUTHBEARER (RFC 7628): signed tokens, checked by
`moldau.link.login.signed_tokens`."""

from __future__ import annotations

from typing import Final

from moldau.broker.security.mechanism import LoginFailed
from moldau.deferred import deferred_pattern
from moldau.errors import without_frames
from moldau.link.login.signed_tokens import TokenCheck, TokenRefused

OAUTHBEARER: Final = "OAUTHBEARER"
_FIRST: Final = deferred_pattern(
    rb"n,(?:a=(?P<other>[^,\x00\x01]*))?,\x01auth=[Bb]earer (?P<token>[A-Za-z0-9._~+/=-]+)"
    rb"\x01(?:[A-Za-z]+=[^\x00\x01]*\x01)*\x01"
)
_REFUSED: Final = b'{"status":"invalid_token"}'


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
            raise without_frames(self._failure)
        found = _FIRST.fullmatch(data)
        if found is None:
            raise LoginFailed("the message is malformed")
        try:
            verified = self._check.verify(found["token"].decode())
        except TokenRefused as refused:
            self._failure = LoginFailed(str(refused))
            return _REFUSED
        other = (found["other"] or b"").decode("utf-8", "replace")
        if other not in ("", verified.user):
            raise LoginFailed("a user cannot log in as another")
        self.user = verified.user
        self.lifetime_ms = max(1, int((verified.expires_at_s - self._check.now_s()) * 1000))
        self.is_done = True
        return b""
