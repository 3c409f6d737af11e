"""An object store that is late, loses answers after success, fails and throttles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from moldau.broker.tiered.remote_segment import SegmentId
from tests.broker.tiered.simulation.replica import Record

PARTS: Final = ("log", "indexes")


class Answer(StrEnum):
    """What becomes of a request, to the store and to the topic."""

    DONE = "done"
    FAILED = "failed"
    TORN = "torn"
    """Half of it is done."""
    LOST = "answer lost"
    """It is done, and there is no answer."""
    LATE = "late"
    """There is no answer, and it is done some time later."""


@dataclass(frozen=True, slots=True)
class Content:
    """What is put of a segment: its records, and the transactions of its index."""

    records: dict[int, Record]
    aborted: tuple[tuple[int, int], ...]
    """The first offset and the marker of each."""


class Store:
    """Objects by segment and part."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.objects: dict[tuple[SegmentId, str], Content] = {}
        self.times_ms: dict[SegmentId, int] = {}
        """When the newest object of a segment came."""
        self._now_ms = now_ms

    def put(self, segment: SegmentId, content: Content, parts: tuple[str, ...] = PARTS) -> None:
        for part in parts:
            self.objects[segment, part] = content
            self.times_ms[segment] = self._now_ms()

    def delete(self, segment: SegmentId, parts: tuple[str, ...] = PARTS) -> None:
        for part in parts:
            self.objects.pop((segment, part), None)

    def get(self, segment: SegmentId, part: str) -> Content | None:
        return self.objects.get((segment, part))

    def stored(self) -> dict[SegmentId, int]:
        return {
            segment: self.times_ms[segment]
            for segment in sorted({each for each, _ in self.objects})
        }
