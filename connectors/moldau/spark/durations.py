"""Parse durations as Spark writes them: `15m`, `10 seconds`, `500 ms`, or plain milliseconds."""

from __future__ import annotations

import re
from typing import Final

from moldau.errors import ConfigError

_UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")


def duration_ms(option: str, text: str) -> int:
    """Parse a duration to milliseconds. Raises ConfigError, which names `option`."""
    found = _DURATION.fullmatch(text.strip().lower())
    unit = None if found is None else found[2]
    if unit is not None and unit not in _UNITS_MS:
        unit = unit.removesuffix("s")
    if found is None or unit not in _UNITS_MS:
        raise ConfigError("use a time such as 15m or 10 seconds", option=option, value=text)
    return int(found[1]) * _UNITS_MS[unit]
