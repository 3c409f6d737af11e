"""Finds and hides the secrets in values of settings: by their names, and inside addresses.

Of an address such as `jdbc:postgresql://user:PASSWORD@host/db` only the password is hidden, so the
rest can still be read. A reference such as `${env:DB_PASSWORD}` is no secret: it has no value.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"
"""Stands in the place of a secret."""
_WORD: Final = r"(?:password|passwd|pwd|secret|token)"
_NAME: Final = re.compile(
    rf"(?:{_WORD}|jaas\.config|auth\.user\.info|keystore\.key|secret\.(?:access\.)?key)$", re.I
)
_IN_ADDRESS: Final = (
    re.compile(r"://[^:/?#@\s]*:([^/?#\s]+)@"),
    re.compile(r"://[^:/?#@\s]*:(?!\d+[/?;,])([^@\s]+)@"),  # a slash in the password
    re.compile(r"^jdbc:oracle:\w+:[^/@\s]+/(\S+)@"),
    re.compile(rf"[?&][\w.]*{_WORD}=([^&]+)", re.I),
    re.compile(rf";\s*[\w.]*{_WORD}=([^;]+)", re.I),
)
_REFERENCE: Final = re.compile(r"(?:\$\{[^}]*\})+")


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
