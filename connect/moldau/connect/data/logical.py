"""Conversion between logical values and the plain ones that store them: bytes, days, milliseconds.

A timestamp has a whole number of milliseconds on the wire; smaller fractions are cut off.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation, localcontext

from moldau.connect.errors import DataError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MS = timedelta(milliseconds=1)
_DIGITS_MAX = 100_000
"""The most digits of a decimal. A longer one is an attack, not a number."""


def decimal_from_bytes(data: bytes, scale: int) -> Decimal:
    """Return the decimal for big-endian two's complement, with `scale` digits after the point."""
    if len(data) * 3 > _DIGITS_MAX or abs(scale) > _DIGITS_MAX:
        raise DataError("a decimal is longer than can be right", size=len(data), scale=scale)
    unscaled = int.from_bytes(data, "big", signed=True)
    sign, digits = (1, -unscaled) if unscaled < 0 else (0, unscaled)
    if digits < 10**18:
        return Decimal((sign, tuple(map(int, str(digits))), -scale))
    with localcontext(prec=_DIGITS_MAX):
        return Decimal(unscaled).scaleb(-scale)


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """Return the bytes of a decimal. Raise DataError if it has too many digits after the point."""
    unscaled = unscaled_of(value, scale)
    bits = unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def unscaled_of(value: Decimal, scale: int) -> int:
    """Return the value times ten to the power of `scale`. Raise DataError if it is not whole."""
    try:
        with localcontext(prec=_DIGITS_MAX):
            scaled = value.scaleb(scale)
            whole = int(scaled)
            is_whole = whole == scaled
    except (InvalidOperation, OverflowError, ValueError):
        raise DataError(f"{value} is no decimal that can be stored") from None
    if not is_whole:
        raise DataError(f"{value} has more digits behind the point than its schema", scale=scale)
    return whole


def date_from_days(days: int) -> date:
    try:
        return date.fromordinal(_EPOCH_DAY + days)
    except (ValueError, OverflowError):
        raise DataError(f"{days} days since 1970 is outside the years 1 to 9999") from None


def date_to_days(value: date) -> int:
    return value.toordinal() - _EPOCH_DAY


def time_from_ms(ms: int) -> time:
    if not 0 <= ms < DAY_MS:
        raise DataError(f"{ms} is no time of day: it has milliseconds from 0 to 86399999")
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return time(hours, minutes, seconds, ms * 1000)


def time_to_ms(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def timestamp_from_ms(ms: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise DataError(f"{ms} ms since 1970 is outside the years 1 to 9999") from None


def timestamp_to_ms(value: datetime) -> int:
    if value.tzinfo is None:
        raise DataError(f"{value.isoformat()} has no time zone; give it one, such as UTC")
    return (value - EPOCH) // _MS
