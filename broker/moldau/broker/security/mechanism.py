"""What a SASL mechanism is to a login, and how a login fails."""

from __future__ import annotations

from typing import Protocol


class LoginFailed(Exception):
    """A login that is refused. Its text is for the broker's log, and has no secret; the client is
    told only that its credentials are not accepted."""


class Mechanism(Protocol):
    """The server's side of one login."""

    user: str
    """The name that the client claims; empty until it has said one."""
    is_done: bool
    """Whether the client has proved that it is `user`."""
    lifetime_ms: int | None
    """How long the credentials are valid; None if they have no end."""
    is_by_token: bool
    """Whether a delegation token stands for `user`."""

    def step(self, data: bytes) -> bytes:
        """Take the client's next bytes, and return the answer. Raise LoginFailed."""
        ...
