"""One roll of a partition: the records since the last one, by folder, until a limit is reached.

Invariant: a roll is one range of offsets, and after a restart either all its files exist or none.
So all files of one partition roll at the same offset, whichever folder reached the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits at which a roll ends; 0 is no limit."""

    records: int
    size_bytes: int
    interval_ms: int


@dataclass(slots=True)
class Roll:
    """The records that were put since the last roll of one partition."""

    began_ms: int
    start: int | None = None
    end: int = -1
    records: int = 0
    size_bytes: int = 0
    contents: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, offset: int, folder: str, content: Any, size: int) -> None:
        self.skip(offset)
        self.contents.setdefault(folder, []).append(content)
        self.records += 1
        self.size_bytes += size

    def skip(self, offset: int) -> None:
        """Extend the range by a record that is in no file, because it was bad."""
        if self.start is None:
            self.start = offset
        self.end = offset

    def is_full(self, limits: Limits, now_ms: int) -> bool:
        if self.start is None:
            return False
        return (
            0 < limits.records <= self.records
            or 0 < limits.size_bytes <= self.size_bytes
            or 0 < limits.interval_ms <= now_ms - self.began_ms
        )
