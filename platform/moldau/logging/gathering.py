"""Limits log lines that others can cause as often as they like: further lines are only counted.

Invariants: of one event at most `lines` lines are written in a period, and one more with the number
of those that were not; the number of remembered events is limited. So a client that sends a million
malformed requests does not fill a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.logging.loggers import Logger

LINES: Final = 5
PERIOD_S: Final = 60.0
EVENTS_MAX: Final = 200
SOURCE_PERIOD_S: Final = 1.0
SOURCES_MAX: Final = 20


class _Seen:
    __slots__ = ("began_s", "unwritten", "written")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.written = 0
        self.unwritten = 0


class GatheredWarnings:
    """The warnings of one logger. An event is a fixed text of the program; its facts may vary."""

    def __init__(self, log: Logger, lines: int = LINES, period_s: float = PERIOD_S) -> None:
        self._log = log
        self._lines = lines
        self._period_s = period_s
        self._seen: dict[str, _Seen] = {}

    def warn(self, event: str, now_s: float, **facts: object) -> None:
        """Log a warning, or only count it if its event was logged too often in this period."""
        self.tick(now_s)
        seen = self._seen.get(event)
        if seen is None:
            if len(self._seen) >= EVENTS_MAX:
                self._end(next(iter(self._seen)), now_s)
            seen = self._seen[event] = _Seen(now_s)
        if seen.written < self._lines:
            seen.written += 1
            self._log.warn(event, **facts)
        else:
            seen.unwritten += 1

    def tick(self, now_s: float) -> None:
        """Log the counts of periods that are over."""
        for event in list(self._seen):  # the oldest first
            if now_s - self._seen[event].began_s < self._period_s:
                return
            self._end(event, now_s)

    def close(self, now_s: float) -> None:
        """Log the counts of all periods."""
        for event in list(self._seen):
            self._end(event, now_s)

    def _end(self, event: str, now_s: float) -> None:
        seen = self._seen.pop(event)
        if seen.unwritten:
            seconds = max(1, round(now_s - seen.began_s))
            self._log.warn(f"{event} (more of the same)", count=seen.unwritten, seconds=seconds)


class PeerWarnings:
    """Warnings about peers, such as refused logins: of one event at most one line a second for
    each source, so that a flood from one address hides no other. Of more than `SOURCES_MAX` sources
    a second, the further ones are only counted."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._written: dict[tuple[str, str], float] = {}
        """When each event was last written, by its source; the oldest first."""
        self._unwritten: dict[tuple[str, str], int] = {}

    def warn(self, event: str, source: str, now_s: float, **facts: object) -> None:
        """Log a warning, with the number of those before it that were not written; or count it."""
        key = event, source
        self._forget(now_s)
        if key in self._written or len(self._written) >= SOURCES_MAX:
            if len(self._unwritten) < EVENTS_MAX or key in self._unwritten:
                self._unwritten[key] = self._unwritten.get(key, 0) + 1
            return
        self._written[key] = now_s
        more = self._unwritten.pop(key, 0)
        self._log.warn(event, **facts, **({"unwritten_before": more} if more else {}))

    def _forget(self, now_s: float) -> None:
        for key, written_s in list(self._written.items()):
            if now_s - written_s < SOURCE_PERIOD_S:
                return
            del self._written[key]
