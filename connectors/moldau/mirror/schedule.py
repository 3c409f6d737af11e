"""When the repeated work of a connector is due. A volatile core; no IO."""

from __future__ import annotations

from collections.abc import Mapping


class Schedule:
    """Jobs by name, each with its interval in seconds."""

    def __init__(self, intervals_s: Mapping[str, float], now: float) -> None:
        self._intervals_s = dict(intervals_s)
        self._due = {name: now + interval for name, interval in intervals_s.items()}

    def ready(self, now: float) -> list[str]:
        """Return, once, the jobs that are due, in the order in which they were given."""
        due = [name for name, at in self._due.items() if at <= now]
        for name in due:
            self._due[name] = now + self._intervals_s[name]
        return due
