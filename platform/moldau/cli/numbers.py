"""Numbers on a command line, limited to the ranges of the protocol's fields."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from decimal import Decimal
from math import nan
from typing import Final

from moldau.deferred import deferred_pattern

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PERIOD: Final = deferred_pattern(r"([1-9][0-9]{0,8})([smhd])")


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a function for `add_argument(type=...)`: integers from `low` to `high` inclusive."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ArgumentTypeError(f"{text!r} is no number from {low} to {high}")
        return value

    return number


def decimal(low: float, high: float) -> Callable[[str], float]:
    """Return a function for `add_argument(type=...)`: numbers from `low` to `high` inclusive."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not low <= value <= high:
            raise ArgumentTypeError(f"{text!r} is no number from {low:g} to {high:g}")
        return value

    return number


def period(text: str) -> int:
    """Return the milliseconds of a period such as 90s, 15m, 12h or 7d."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no period: write 90s, 15m, 12h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def is_int64(text: str) -> bool:
    """Whether the text is an offset or time of the protocol: decimal digits, at most 2**63 - 1."""
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= INT64_MAX


def exact(value: float) -> str:
    """Return all digits of a number, without an exponent; those of a whole one without a point."""
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def binary_size(size_bytes: int) -> str:
    """Return a size for people, such as `1.5 MiB`; `?` for one that is not known."""
    if size_bytes < 0:
        return "?"
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
