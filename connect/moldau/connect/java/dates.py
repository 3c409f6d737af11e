"""Date patterns of Java's `SimpleDateFormat`, in UTC and English.

Parsing is as lenient as Java's: month 13 is January of the next year, text after the end of the
pattern is ignored. Two differences are intended. A year of two digits is between 1970 and 2069, so
that the meaning of a config does not depend on the current day. Days before 15 October 1582 are
those of the Gregorian calendar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from moldau.connect.errors import DataError
from moldau.deferred import dataclass

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ZONES: Mapping[str, int] = {
    "UTC": 0, "GMT": 0, "UT": 0, "Z": 0,
    "EST": -300, "EDT": -240, "CST": -360, "CDT": -300,
    "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
    "CET": 60, "CEST": 120, "EET": 120, "EEST": 180, "WET": 0, "WEST": 60, "BST": 60, "JST": 540,
}  # fmt: skip
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_NUMERIC = frozenset("yYwWDdFuHkKhmsS")
_LETTERS = _NUMERIC | frozenset("GMLEazZX")
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?")
_DIGITS = re.compile(r"\d+")
_CENTURY_START = 1970


class DatePatternError(ValueError):
    """A pattern that `SimpleDateFormat` would reject."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A run of one pattern letter, or a literal text if `letter` is empty."""

    letter: str
    count: int
    text: str = ""

    @property
    def is_number(self) -> bool:
        return self.letter in _NUMERIC or (self.letter in ("M", "L") and self.count <= 2)


class SimpleDateFormat:
    """Writes and parses dates by one pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = _parts(pattern)

    def format(self, when: datetime) -> str:
        """Return the text for an instant."""
        when = when.astimezone(UTC)
        return "".join(
            part.text if not part.letter else _WRITERS[part.letter](when, part.count)
            for part in self._parts
        )

    def parse(self, text: str) -> datetime:
        """Return the instant in a text. Raise DataError if it does not match."""
        reading = _Reading(text)
        for index, part in enumerate(self._parts):
            following = self._parts[index + 1] if index + 1 < len(self._parts) else None
            width = part.count if following is not None and following.is_number else None
            if not reading.take(part, width):
                raise DataError(
                    f"Could not parse timestamp: value ({text}) does not match pattern "
                    f"({self.pattern})"
                )
        return reading.instant()


@lru_cache(maxsize=64)
def _parts(pattern: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    at = 0
    while at < len(pattern):
        found = _TOKENS.match(pattern, at)
        if found is None:
            raise DatePatternError(f"the date pattern {pattern!r} has a quote that is not closed")
        at = found.end()
        if found.group(2):
            parts.append(_letter(pattern, found.group(2), len(found.group())))
        else:
            text = found.group()
            if found.group(1) is not None:
                text = found.group(1).replace("''", "'") or "'"
            parts.append(_Part("", 0, text))
    return tuple(parts)


def _letter(pattern: str, letter: str, count: int) -> _Part:
    if letter not in _LETTERS or (letter == "X" and count > 3):
        raise DatePatternError(
            f"the date pattern {pattern!r} has {letter * count!r}, which is unknown"
        )
    return _Part(letter, count)


# --- writing --------------------------------------------------------------------------------


def _sunday_first(when: datetime) -> int:
    """Return the day of the week, from 0 for Sunday."""
    return when.isoweekday() % 7


def _week_of_year(when: datetime) -> tuple[int, int]:
    """Return year and week as in the United States: weeks start on Sunday, week 1 has 1 January."""
    day = when.timetuple().tm_yday
    end = when.replace(month=12, day=31)
    if (end - when).days < 7 and _sunday_first(end) < 6 and (end - when).days <= _sunday_first(end):
        return when.year + 1, 1
    first = _sunday_first(when.replace(month=1, day=1))
    return when.year, (day - 1 + first) // 7 + 1


def _padded(number: int, count: int) -> str:
    return str(number).rjust(count, "0")


def _year(year: int, count: int) -> str:
    return _padded(year % 100, 2) if count == 2 else _padded(year, count)


def _month(when: datetime, count: int) -> str:
    if count >= 3:
        return _MONTHS[when.month - 1] if count >= 4 else _MONTHS[when.month - 1][:3]
    return _padded(when.month, count)


def _week_day(when: datetime, count: int) -> str:
    name = _DAYS[when.weekday()]
    return name if count >= 4 else name[:3]


_WRITERS: Mapping[str, Callable[[datetime, int], str]] = {
    "G": lambda when, count: "AD",
    "y": lambda when, count: _year(when.year, count),
    "Y": lambda when, count: _year(_week_of_year(when)[0], count),
    "M": _month,
    "L": _month,
    "w": lambda when, count: _padded(_week_of_year(when)[1], count),
    "W": lambda when, count: _padded(
        (when.day - 1 + _sunday_first(when.replace(day=1))) // 7 + 1, count
    ),
    "D": lambda when, count: _padded(when.timetuple().tm_yday, count),
    "d": lambda when, count: _padded(when.day, count),
    "F": lambda when, count: _padded((when.day - 1) // 7 + 1, count),
    "E": _week_day,
    "u": lambda when, count: _padded(when.isoweekday(), count),
    "a": lambda when, count: "AM" if when.hour < 12 else "PM",
    "H": lambda when, count: _padded(when.hour, count),
    "k": lambda when, count: _padded(when.hour or 24, count),
    "K": lambda when, count: _padded(when.hour % 12, count),
    "h": lambda when, count: _padded(when.hour % 12 or 12, count),
    "m": lambda when, count: _padded(when.minute, count),
    "s": lambda when, count: _padded(when.second, count),
    "S": lambda when, count: _padded(when.microsecond // 1000, count),
    "z": lambda when, count: "Coordinated Universal Time" if count >= 4 else "UTC",
    "Z": lambda when, count: "+0000",
    "X": lambda when, count: "Z",
}


# --- reading --------------------------------------------------------------------------------


class _Reading:
    """The state while a text is parsed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._year = 1970
        self._is_bc = False
        self._fields: dict[str, int] = {}
        self._offset_min = 0

    def take(self, part: _Part, width: int | None) -> bool:
        """Read the text for one part of the pattern; `width` limits its digits."""
        if not part.letter:
            if not self._text.startswith(part.text, self._at):
                return False
            self._at += len(part.text)
            return True
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        if part.is_number:
            return self._number(part, width)
        match part.letter:
            case "M" | "L":
                return self._name(_MONTHS, "M")
            case "E":
                return self._name(_DAYS, "E")
            case "a":
                return self._name(("AM", "PM"), "a")
            case "G":
                found = self._name(("BC", "AD"), "G")
                self._is_bc = self._fields.get("G") == 1
                return found
        return self._zone(part)

    def _number(self, part: _Part, width: int | None) -> bool:
        found = _DIGITS.match(self._text, self._at)
        if found is None:
            return False
        digits = found.group() if width is None else found.group()[:width]
        self._at += len(digits)
        number = int(digits[:18])
        if part.letter == "y":
            is_short = part.count <= 2 and len(digits) == 2
            self._year = _in_century(number) if is_short else number
        else:
            self._fields["M" if part.letter == "L" else part.letter] = number
        return True

    def _name(self, names: tuple[str, ...], letter: str) -> bool:
        rest = self._text[self._at :].lower()
        for length in (None, 3):
            for number, name in enumerate(names, 1):
                if rest.startswith(name[:length].lower()):
                    self._fields[letter] = number
                    self._at += len(name[:length])
                    return True
        return False

    def _zone(self, part: _Part) -> bool:
        found = _OFFSET.match(self._text, self._at)
        if found is not None:
            sign, hours, minutes = found.group(1), int(found.group(2)), int(found.group(3) or 0)
            self._offset_min = (hours * 60 + minutes) * (1 if sign == "+" else -1)
            self._at = found.end()
            return True
        name = re.compile(r"[A-Za-z]+").match(self._text, self._at)
        if name is None or name.group().upper() not in _ZONES:
            return False
        if part.letter == "X" and name.group() != "Z":
            return False
        self._offset_min = _ZONES[name.group().upper()]
        self._at = name.end()
        return True

    def instant(self) -> datetime:
        get = self._fields.get
        hour = get("H", get("k", 0) % 24)
        if "h" in self._fields or "K" in self._fields:
            hour = get("h", get("K", 0)) % 12 + (12 if get("a") == 2 else 0)
        months = get("M", 1) - 1
        year, month = self._year + months // 12, months % 12 + 1
        days = get("D", 0) - 1 if "D" in self._fields else get("d", 1) - 1
        try:
            start = datetime(year, 1 if "D" in self._fields else month, 1, tzinfo=UTC)
            if self._is_bc:
                raise OverflowError
            return start + timedelta(
                days=days,
                hours=hour,
                minutes=get("m", 0) - self._offset_min,
                seconds=get("s", 0),
                milliseconds=get("S", 0),
            )
        except (ValueError, OverflowError):
            raise DataError(
                f"Could not parse timestamp: {self._text!r} is outside the years 1 to 9999"
            ) from None


def _in_century(number: int) -> int:
    year = _CENTURY_START // 100 * 100 + number
    return year if year >= _CENTURY_START else year + 100
