"""What functions of expressions do with values, where one line of Python does not say it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any, Final, NoReturn

UTC: Final = datetime.UTC
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = datetime.timedelta(milliseconds=1)
INT_MIN: Final = -(2**63)
INT_END: Final = 2**63
_DAY_US: Final = 86_400_000_000
MICROS_MIN: Final = (
    datetime.date.min.toordinal() - datetime.date(1970, 1, 1).toordinal()
) * _DAY_US
"""The first microsecond that a time of Python has, since 1970; MICROS_END is after the last."""
MICROS_END: Final = (
    datetime.date.max.toordinal() + 1 - datetime.date(1970, 1, 1).toordinal()
) * _DAY_US


def overflow(value: int) -> NoReturn:
    raise OverflowError(f"{value!r:.40} does not fit in an integer of 64 bits")


def checked_int(value: int) -> int:
    return value if INT_MIN <= value < INT_END else overflow(value)


def boolean(value: Any) -> bool | None:
    """Return a value of a field without a declared type, which has to be true, false or null."""
    if value is None or value.__class__ is bool:
        return value
    raise TypeError(f"{value!r:.80} is {type(value).__name__}, and must be true or false")


def field(record: Any, name: str) -> Any:
    """Return a field of a record of any type; None if it has no such field."""
    if record is None:
        return None
    if isinstance(record, dict):
        return record.get(name)
    if isinstance(record, str | bytes | int | float | list | tuple):
        raise TypeError(f"{record!r:.80} is {type(record).__name__}, and has no field {name!r}")
    return getattr(record, name, None)


def as_dict(record: Any) -> dict[str, Any]:
    """Return a record of any type as a dict, to which fields can be added."""
    if isinstance(record, Mapping):
        return dict(record)
    raise TypeError(f"{record!r:.80} is {type(record).__name__}, and takes no further fields")


def utc(time: datetime.datetime) -> datetime.datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def truncated(time: datetime.datetime, size_ms: int) -> datetime.datetime:
    size = datetime.timedelta(milliseconds=size_ms)
    return _EPOCH + (utc(time) - _EPOCH) // size * size


def epoch_ms(time: datetime.datetime) -> int:
    return (utc(time) - _EPOCH) // _MS


def time_of(epoch: int) -> datetime.datetime:
    return _EPOCH + epoch * _MS


def int_of_float(value: float) -> int:
    """Drop the fraction. Raise ValueError or OverflowError if there is no such integer."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no integer")
    return checked_int(int(value))


def int_of_text(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r:.80} is no integer")
    return checked_int(int(text))


def float_of_text(text: str) -> float:
    if not text or not text.isascii() or text[0].isspace() or text[-1].isspace() or "_" in text:
        raise ValueError(f"{text!r:.80} is no number")
    return float(text)
