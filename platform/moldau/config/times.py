"""A point in time as users write it: a date with a time, `@` and milliseconds, or `-1h`.

The time that `-1h` counts back from is an argument: this module has no clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from moldau.deferred import deferred_pattern

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = deferred_pattern(r"-(\d{1,15})(ms|s|m|h|d)")
_STAMP: Final = deferred_pattern(r"@(\d{1,19})")
_DIGITS_OF_DATE: Final = 8
_MAX_MS: Final = 2**63 - 1
FORMS: Final = "a time like 2026-11-20T12:00:00Z, -1h (ms, s, m, h or d ago), or @ and milliseconds"


def iso_datetime(text: str) -> datetime:
    """Read a datetime in ISO form. Raise ValueError for other text, and for more than eight digits:
    those are milliseconds, of which Python takes the ninth for the T between date and time."""
    if len(text) > _DIGITS_OF_DATE and text[: _DIGITS_OF_DATE + 1].isdecimal():
        raise ValueError(f"{text!r} is no time in ISO form")
    return datetime.fromisoformat(text)


def parse_time_ms(text: str, now_ms: int) -> int:
    """Return milliseconds since 1970. A time without a zone is UTC. Raise ValueError, which says
    what is allowed; times before 1970 mean something else in the protocol, and are rejected."""
    stamp, ago = _STAMP.fullmatch(text), _AGO.fullmatch(text)
    if stamp is not None and int(stamp[1]) <= _MAX_MS:
        return int(stamp[1])
    if ago is not None:
        return _since_1970(now_ms - int(ago[1]) * _UNITS_MS[ago[2]], text)
    try:
        moment = iso_datetime(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: {FORMS}") from None
    return _datetime_ms(moment, text)


def instant_ms(given: object, now_ms: int) -> object:
    """Return milliseconds since 1970 for a datetime, a timedelta from now, or text. Return anything
    else as it is. Raise ValueError for a datetime without a zone: is it UTC or local time?"""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(f"{given!r} has no zone: give it one, such as datetime.UTC")
        return _datetime_ms(given, given.isoformat())
    if isinstance(given, timedelta):
        return _since_1970(now_ms + round(given.total_seconds() * 1000), repr(given))
    return parse_time_ms(given, now_ms) if isinstance(given, str) else given


def _datetime_ms(moment: datetime, text: str) -> int:
    """Return milliseconds since 1970 of a datetime. One without a zone is UTC."""
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return _since_1970(round(zoned.timestamp() * 1000), text)


def _since_1970(milliseconds: int, text: str) -> int:
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970, where the times of records begin")
    return milliseconds
