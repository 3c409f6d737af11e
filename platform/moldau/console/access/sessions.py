"""Sessions of visitors that have logged in, and what a browser keeps while it logs in. Pure.

Invariants: of a session's id only a hash is kept, so nothing here is of use to a thief; a session
ends LONGEST_S after its login and IDLE_S after its last request; of more than SESSIONS_MAX,
the oldest ends. What a browser keeps is signed, and refused after LOGIN_S.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Final

from moldau.console.access.roles import Login
from moldau.deferred import dataclass

LONGEST_S: Final = 8 * 3600.0
IDLE_S: Final = 3600.0
SESSIONS_MAX: Final = 10_000
LOGIN_S: Final = 600.0
"""How long a person has to log in at the provider."""
_ID_BYTES: Final = 32
_UNTIL: Final = "until"

RandomBytes = Callable[[int], bytes]


@dataclass(slots=True)
class _Session:
    login: Login
    ends_at_s: float
    seen_at_s: float


class Sessions:
    """The sessions of one console. Times are those of a monotonic clock."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self._found: dict[bytes, _Session] = {}

    def open(self, login: Login, now_s: float) -> str:
        """Begin a session, and return its id for the cookie."""
        while len(self._found) >= SESSIONS_MAX:
            del self._found[next(iter(self._found))]
        made = self._random_bytes(_ID_BYTES).hex()
        self._found[_hashed(made)] = _Session(login, now_s + LONGEST_S, now_s)
        return made

    def find(self, session_id: str, now_s: float) -> Login | None:
        """Return the login of a session that has not ended, and keep it from being idle."""
        key = _hashed(session_id)
        found = self._found.get(key)
        if found is None:
            return None
        if now_s >= min(found.ends_at_s, found.seen_at_s + IDLE_S):
            del self._found[key]
            return None
        found.seen_at_s = now_s
        return found.login

    def close(self, session_id: str) -> None:
        """End a session."""
        self._found.pop(_hashed(session_id), None)


def name_of(session_id: str) -> str:
    """Return a name of a session that tells nothing of its id."""
    return _hashed(session_id).hex()


def _hashed(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()


class Seal:
    """Signs texts for a browser to keep, with a key of this process."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def closed(self, values: Mapping[str, str], now_s: float) -> str:
        """Return the values with a signature."""
        text = json.dumps({**values, _UNTIL: str(now_s + LOGIN_S)}).encode()
        return f"{urlsafe_b64encode(text).decode()}.{self._signature(text)}"

    def opened(self, text: str, now_s: float) -> dict[str, str] | None:
        """Return the values; None if they are too old, or not signed by this process."""
        encoded, _, signature = text.rpartition(".")
        try:
            data = urlsafe_b64decode(encoded.encode())
        except ValueError:
            return None
        if not hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._signature(data).encode()
        ):
            return None
        values: dict[str, str] = json.loads(data)
        return values if now_s < float(values.pop(_UNTIL)) else None

    def _signature(self, data: bytes) -> str:
        return hmac.new(self._key, data, "sha256").hexdigest()
