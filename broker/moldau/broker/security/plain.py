"""The server's side of SASL PLAIN (RFC 4616): users and passwords are in `sasl.jaas.config`.

Invariant: how long a login takes says neither whether a user exists nor how much of a password is
right.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from moldau.broker.security.mechanism import LoginFailed

PLAIN: Final = "PLAIN"
USER_PREFIX: Final = "user_"
_NO_PASSWORD: Final = b"\0"
"""The password of a user that does not exist. No client can send it."""


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords by user from the options of Kafka's PlainLoginModule: user_alice=..."""
    return {
        name.removeprefix(USER_PREFIX): password
        for name, password in options.items()
        if name.startswith(USER_PREFIX)
    }


class PlainServer:
    """One login."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.user = ""
        self.is_done = False
        self.is_by_token = False
        self.lifetime_ms: int | None = None
        self._passwords = passwords

    def step(self, data: bytes) -> bytes:
        """Check the user and the password."""
        try:
            parts = data.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginFailed("the message is not UTF-8") from None
        if len(parts) != 3:
            raise LoginFailed("the message has not three parts")
        other, self.user, password = parts
        if not self.user or not password:
            raise LoginFailed("the user or the password is empty")
        known = self._passwords.get(self.user)
        expected = _NO_PASSWORD if known is None else known.encode()
        is_right = hmac.compare_digest(expected, password.encode())
        if not is_right or known is None:
            raise LoginFailed("wrong user or password")
        if other not in ("", self.user):
            raise LoginFailed("a user cannot log in as another")
        self.is_done = True
        return b""
