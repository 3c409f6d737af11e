"""Delays as users write them: seconds, a timedelta, or text such as `30s`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, TypeAlias

Delay: TypeAlias = "str | float | timedelta | None"

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)")
_MS_MAX: Final = 2**62


def delay_ms_of(given: Delay) -> int:
    """Return milliseconds; -1 for None. Raise ValueError for what is no delay."""
    if given is None:
        return -1
    if isinstance(given, str):
        found = _TEXT.fullmatch(given.strip())
        if found is None:
            raise ValueError(f"{given!r} is no delay: write 500ms, 30s, 5m, 2h or 1d")
        return int(found[1]) * _UNITS_MS[found[2]]
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not 0 <= seconds * 1000 <= _MS_MAX:
        raise ValueError(f"{given!r} is no delay: it has to be 0 or more seconds")
    return round(seconds * 1000)
