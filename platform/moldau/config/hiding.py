"""Finds and hides the secrets in values of settings: by their names, and inside addresses.

Of an address such as `jdbc:postgresql://user:PASSWORD@host/db` only the password is hidden, so the
rest can still be read. A reference such as `${env:DB_PASSWORD}` is no secret: it has no value.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.deferred import deferred_pattern

HIDDEN: Final = "[hidden]"
"""Stands in the place of a secret."""
_WORD: Final = r"(?:password|passwd|pwd|secret|token)"
_NAME: Final = deferred_pattern(
    rf"(?:{_WORD}|jaas\.config|auth\.user\.info|keystore\.key|secret\.(?:access\.)?key)$", re.I
)
_IN_ADDRESS: Final = (
    deferred_pattern(r"://[^:/?#@\s]*:([^/?#\s]+)@"),
    deferred_pattern(r"://[^:/?#@\s]*:(?!\d+[/?;,])([^@\s]+)@"),  # a slash in the password
    deferred_pattern(r"^jdbc:oracle:\w+:[^/@\s]+/(\S+)@"),
    deferred_pattern(rf"[?&][\w.]*{_WORD}=([^&]+)", re.I),
    deferred_pattern(rf";\s*[\w.]*{_WORD}=([^;]+)", re.I),
)
_REFERENCE: Final = deferred_pattern(r"(?:\$\{[^}]*\})+")


def has_secret_name(name: str) -> bool:
    """Whether the whole value under this name is a secret."""
    return _NAME.search(name) is not None


def secret_places(value: str) -> list[tuple[int, int]]:
    """Return the positions of passwords inside a value, in order and without overlap."""
    found: list[tuple[int, int]] = []
    for pattern in _IN_ADDRESS:
        for match in pattern.finditer(value):
            start, end = match.span(1)
            is_new = all(end <= other or start >= until for other, until in found)
            if is_new and not _REFERENCE.fullmatch(value[start:end]):
                found.append((start, end))
    return sorted(found)


def hidden(value: str) -> str:
    """Return a value with the passwords inside it hidden."""
    for start, end in reversed(secret_places(value)):
        value = value[:start] + HIDDEN + value[end:]
    return value
