"""The offsets of a partition's records that are in the dead letter queue. No IO.

A sink that stores offsets itself goes back to them after a restart. They can be lower than the
offsets of records that a converter has rejected since, which would go to the queue again. So the
offsets of these records are committed as metadata of the group's offset, and read again when the
partition is assigned.

Why each offset and not the highest: with another converter a record below it may be bad that was
good before. It has to go to the queue.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, Self

PREFIX: Final = "dead-letters:"
NOTE_CHARS_MAX: Final = 4_000
"""The most characters of a note. Brokers limit it: `offset.metadata.max.bytes`, 4096 by default."""
_RANGE: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


class Places:
    """The dead letters of one partition: ranges of offsets, both ends inclusive, in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @classmethod
    def parse(cls, note: str) -> Self:
        """Return the places in a note that `note` made. Other commit metadata gives none."""
        found = cls()
        if note.startswith(PREFIX):
            for each in note.removeprefix(PREFIX).split(","):
                match = _RANGE.fullmatch(each)
                if match is None or int(match[2] or match[1]) < int(match[1]):
                    return cls()
                found._starts.append(int(match[1]))
                found._ends.append(int(match[2] or match[1]))
        in_order = sorted(zip(found._starts, found._ends, strict=True))
        found._starts = [start for start, _ in in_order]
        found._ends = [end for _, end in in_order]
        return found

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset <= self._ends[at]

    def add(self, offset: int) -> None:
        if offset in self:
            return
        at = bisect_right(self._starts, offset)
        if at > 0 and self._ends[at - 1] == offset - 1:
            self._ends[at - 1] = offset
        else:
            self._starts.insert(at, offset)
            self._ends.insert(at, offset)

    def forget_below(self, offset: int) -> None:
        """Forget the offsets below `offset`: these records are not read again."""
        first = bisect_right(self._ends, offset - 1)
        del self._starts[:first], self._ends[:first]

    def note(self) -> str:
        """Return the offsets as text, or "". If they are too many, keep the lowest ones."""
        parts: list[str] = []
        size = len(PREFIX)
        for start, end in zip(self._starts, self._ends, strict=True):
            part = str(start) if start == end else f"{start}-{end}"
            size += len(part) + 1
            if size > NOTE_CHARS_MAX:
                break
            parts.append(part)
        return PREFIX + ",".join(parts) if parts else ""
