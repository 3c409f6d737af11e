"""Which records of a partition are in the dead letter queue, as offsets. No IO.

A sink that keeps offsets of its own goes back to them after a restart. They can be older than
records that a converter rejected since, which would go to the queue again. So the offsets of these
are committed as a note beside the offset of the group, and read again with the partition.

Why each offset and not the highest: with another converter a record above it may be bad that was
good before. It has to go to the queue.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, Self

PREFIX: Final = "dead-letters:"
NOTE_CHARS_MAX: Final = 4_000
"""A broker refuses more than `offset.metadata.max.bytes`, 4096 by default."""
_RANGE: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


class Places:
    """Those of one partition: ranges of offsets, both ends inclusive, in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @classmethod
    def parse(cls, note: str) -> Self:
        """What `note` made. Any other text gives none, for others commit notes as well."""
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
        """These records are not read again."""
        first = bisect_right(self._ends, offset - 1)
        del self._starts[:first], self._ends[:first]

    def note(self) -> str:
        """As text; of too many the lowest, which are read again first. "" for none."""
        parts: list[str] = []
        size = len(PREFIX)
        for start, end in zip(self._starts, self._ends, strict=True):
            part = str(start) if start == end else f"{start}-{end}"
            size += len(part) + 1
            if size > NOTE_CHARS_MAX:
                break
            parts.append(part)
        return PREFIX + ",".join(parts) if parts else ""
