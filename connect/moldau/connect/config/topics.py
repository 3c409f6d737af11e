"""Checks topic names. No IO."""

from __future__ import annotations

import re
from typing import Final

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name_problem(name: str) -> str | None:
    """Return why this name is invalid for a topic; None if it is valid."""
    if _LEGAL.fullmatch(name) and name not in (".", ".."):
        return None
    return "the name of a topic has 1 to 249 ASCII letters, digits, . _ and -"
