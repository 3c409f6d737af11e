"""Where to begin when there is no position: `auto.offset.reset`, in all its forms. No IO."""

from __future__ import annotations

import re
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError

BY_DURATION: Final = "by_duration:"
_ISO_8601: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_UNITS_S: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_LATEST: Final = -1
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class Reset:
    """What to ask the leader for: an end of the log, or records of the last `age_ms`."""

    end: int | None = None
    age_ms: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether the user has to decide."""
        return self.end is None and self.age_ms is None

    def timestamp(self, now_ms: int) -> int | None:
        """As ListOffsets takes it; None where the user has to decide."""
        return self.end if self.age_ms is None else max(0, now_ms - self.age_ms)


BEGINNING: Final = Reset(_EARLIEST)


def parse_reset(text: str) -> Reset:
    """`earliest`, `latest`, `none` or `by_duration:P1DT2H30M`; ConfigError for anything else."""
    known = {"earliest": Reset(_EARLIEST), "latest": Reset(_LATEST), "none": Reset()}
    if text in known:
        return known[text]
    if text.startswith(BY_DURATION):
        return Reset(age_ms=_duration_ms(text.removeprefix(BY_DURATION)))
    raise ConfigError("not a way to reset offsets", value=text, known=", ".join(known))


def _duration_ms(text: str) -> int:
    found = _ISO_8601.fullmatch(text.upper())
    if found is None or len(text) > 64 or text.upper() in ("P", "PT") or text.endswith(("T", "t")):
        raise ConfigError("not an ISO 8601 duration such as PT15M or P2DT3H", value=text)
    parts = found.groupdict()
    seconds = sum(float(parts[unit] or 0) * each for unit, each in _UNITS_S.items())
    return round(seconds * 1000)
