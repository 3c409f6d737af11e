"""The segments of a log in the order of their offsets.

Invariants: never empty; base offsets ascend; the last one is active, all others are sealed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.broker.log.segment import Segment


class Segments(Sequence[Segment]):
    """A sorted list of segments with lookup by offset."""

    __slots__ = ("_bases", "_files", "_segments", "active", "newest_sealed", "version")

    def __init__(self, segments: Sequence[Segment], files: FilePool = NO_POOL) -> None:
        """`files` closes the files of the segments that are not used."""
        self._files = files
        self.version = 0
        """Changes with `replace_all`. Positions that were looked up before are not valid then."""
        self.replace_all(segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:  # type: ignore[override] # no slices needed
        return self._segments[index]

    def replace_all(self, segments: Sequence[Segment]) -> None:
        """Replace all segments by others."""
        assert segments
        self.version += 1
        for segment in segments:
            _join(segment, self._files)
        self._segments = list(segments)
        self._bases = [each.base_offset for each in self._segments]
        assert all(low < high for low, high in zip(self._bases, self._bases[1:], strict=False))
        self.active = self._segments[-1]
        self.newest_sealed = self._segments[-2] if len(segments) > 1 else None
        """The segment before the active one; None if there is none."""

    def append(self, segment: Segment) -> None:
        """Add a new active segment."""
        assert segment.base_offset > self._bases[-1]
        _join(segment, self._files)
        self._segments.append(segment)
        self.newest_sealed = self.active
        self._bases.append(segment.base_offset)
        self.active = segment

    def hand_to(self, files: FilePool) -> None:
        """Let another pool close the files that are not used."""
        self._files = files
        for segment in self._segments:
            _join(segment, files)

    def release_files(self) -> None:
        """Close all files that are open. They are opened again at the next use."""
        for segment in self._segments:
            segment.log_file.release_files()
            for index in segment.mapped_indexes():
                index.close()

    def index_of(self, offset: int) -> int:
        """Return the number of the segment for `offset`, or 0 if the offset lies before all
        segments."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_of(self, index: int) -> int:
        """Return the end offset of the segment with this number: the next one's base, or the log's
        end."""
        if index + 1 < len(self._bases):
            return self._bases[index + 1]
        return self.active.next_offset


def _join(segment: Segment, files: FilePool) -> None:
    segment.pool = files
    segment.log_file.join(files)
    for index in segment.mapped_indexes():
        index.join(files)
