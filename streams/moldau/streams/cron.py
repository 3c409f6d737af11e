"""Times by cron: `"0 3 * * *"` is every day at three. In UTC, to the minute.

The five fields are minute, hour, day of the month, month and day of the week (0 and 7 are Sunday).
Each is `*`, a number, a range `1-5`, a step `*/15` or `8-18/2`, or several with commas; months and
days of the week have names, too (`jan`, `mon`). If both days are given, either of them is enough,
as in every cron. A library of its own would be larger than this.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from moldau.deferred import dataclass
from moldau.streams.problems import StreamsError

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_MAX: Final = 8 * 366 + 1
"""A 29 February comes at least once in so many days."""
_MINUTE: Final = timedelta(minutes=1)


class _Field(NamedTuple):
    what: str
    first: int
    last: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class CronTimes:
    """The minutes that a cron text names."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether a day of the month or one of the week is enough."""

    def after(self, now_ms: int) -> int:
        """Return the first such time after `now_ms`."""
        now = datetime.fromtimestamp(now_ms // 1000, UTC).replace(second=0) + _MINUTE
        day, from_minute = now.date(), (now.hour, now.minute)
        for _ in range(_DAYS_MAX):
            if self._has(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        if (hour, minute) >= from_minute:
                            at = datetime.combine(day, time(hour, minute), UTC)
                            return int(at.timestamp()) * 1000
            day, from_minute = day + timedelta(days=1), (0, 0)
        raise AssertionError("`cron_times` lets no text pass that names no day")

    def _has(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.either_day else in_month and in_week


def is_cron(text: object) -> bool:
    """Whether a text has several fields, as no duration has."""
    return isinstance(text, str) and len(text.split()) > 1


def cron_times(text: str, where: str) -> CronTimes:
    """Return the times of a cron text. Raise StreamsError, which names the field that is wrong."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(each.what for each in _FIELDS)
        raise StreamsError(f"{where}: {text!r} must have five fields, as in cron: {names}")
    minutes, hours, days, months, weekdays = (
        _numbers(part, field, f"{where}: {text!r}")
        for part, field in zip(parts, _FIELDS, strict=True)
    )
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    longest = max(31 if month not in (4, 6, 9, 11) else 30 for month in months)
    longest = 29 if months == {2} else longest
    if min(days) > longest and not either:
        raise StreamsError(f"{where}: {text!r} names no day: its months have {longest} at most")
    return CronTimes(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(each % 7 for each in weekdays),
        either,
    )


def _numbers(text: str, field: _Field, where: str) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = field.first, field.last
        else:
            low = _number(first, field)
            high = _number(last, field) if dash else (field.last if slash else low)
        width = int(step) if step.isdecimal() else 0 if slash else 1
        if not field.first <= low <= high <= field.last or width < 1:
            raise StreamsError(
                f"{where}: {part!r} is no {field.what}: a number from {field.first} to "
                f"{field.last}, a range such as {field.first}-{field.last}, or */N"
            )
        found.update(range(low, high + 1, width))
    return found


def _number(text: str, field: _Field) -> int:
    """Return a number or the one of a name; -1, which is in no field, for anything else."""
    if text in field.names:
        return field.names.index(text) + field.first
    return int(text) if text.isascii() and text.isdecimal() else -1
