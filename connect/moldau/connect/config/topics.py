"""Which texts are names of topics. No IO."""

from __future__ import annotations

import re
from typing import Final

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name_problem(name: str) -> str | None:
    """Why no topic can have this name; None if one can."""
    if _LEGAL.fullmatch(name) and name not in (".", ".."):
        return None
    return "the name of a topic has 1 to 249 ASCII letters, digits, . _ and -"
