"""The choice of the log to clean next, and of the part to clean.

Invariants: the cleanable part ends at the start of a segment. It ends before the active segment,
before the last stable offset, and before every segment with a record younger than
`min_compaction_lag_ms`. A log is due if the dirty share of its cleanable part is large enough, or
if its oldest dirty record is older than `max_compaction_lag_ms`. The log with the largest share is
next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

from moldau.deferred import dataclass

_INT64_MAX: Final = (1 << 63) - 1
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """A topic's settings for cleaning, under the same names."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    delete_retention_ms: int = _DAY_MS


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The start, the last stable offset and the end of a log."""

    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int


class CleanableSegment(Protocol):
    """The properties of a segment that the choice needs. The last segment of a log is its active
    one."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def first_timestamp(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The state of one log that decides about its cleaning.

    The log is clean below `first_dirty_offset`. It can be cleaned from there to
    `first_uncleanable_offset`, where a segment begins. If `checkpoint_is_wrong`, the log does not
    contain the offset in the checkpoint, and the checkpoint must be rewritten with
    `first_dirty_offset`.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    checkpoint_is_wrong: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, policy: CompactionPolicy) -> bool:
        """Whether cleaning is worth its cost, or overdue."""
        if not self.cleanable_bytes:
            return False
        return self.delay_ms > 0 or self.dirty_ratio > policy.min_cleanable_dirty_ratio


def examine(
    segments: Sequence[CleanableSegment],
    ends: LogEnds,
    cleaned_offset: int | None,
    policy: CompactionPolicy,
    now_ms: int,
) -> Cleanable:
    """Return the part of a log that can be cleaned. `cleaned_offset` is its checkpoint, or None."""
    dirty = ends.log_start_offset if cleaned_offset is None else cleaned_offset
    is_wrong = not ends.log_start_offset <= dirty <= ends.log_end_offset
    if is_wrong:
        dirty = ends.log_start_offset
    first_dirty = _index_of(segments, dirty)
    last = _first_uncleanable(segments, first_dirty, ends, policy, now_ms)
    candidates = segments[first_dirty : len(segments) - 1]
    times = (each.first_timestamp for each in candidates)
    oldest = min((time for time in times if time is not None and time > 0), default=_INT64_MAX)
    overdue_ms = now_ms - max(0, policy.max_compaction_lag_ms) - oldest
    # The first dirty segment may begin with records that are clean already. It counts as dirty as a
    # whole, because all of it must be read.
    return Cleanable(
        first_dirty_offset=dirty,
        first_uncleanable_offset=max(dirty, segments[last].base_offset),
        clean_bytes=sum(each.size_bytes for each in segments[: min(first_dirty, last)]),
        cleanable_bytes=sum(each.size_bytes for each in segments[first_dirty:last]),
        delay_ms=max(0, overdue_ms),
        checkpoint_is_wrong=is_wrong,
    )


Key = TypeVar("Key")


def choose(candidates: Iterable[tuple[Key, Cleanable, CompactionPolicy]]) -> Key | None:
    """Return the log to clean next, or None if none is due. Among equal ones the first counts."""
    due = [
        (cleanable.dirty_ratio, key)
        for key, cleanable, policy in candidates
        if cleanable.is_due(policy)
    ]
    return max(due, key=lambda each: each[0])[1] if due else None


def _index_of(segments: Sequence[CleanableSegment], offset: int) -> int:
    """Return the number of the segment with `offset`, or 0 if the offset lies before all
    segments."""
    return max(0, sum(each.base_offset <= offset for each in segments) - 1)


def _first_uncleanable(
    segments: Sequence[CleanableSegment],
    first_dirty: int,
    ends: LogEnds,
    policy: CompactionPolicy,
    now_ms: int,
) -> int:
    """Return the number of the first segment that must not be cleaned."""
    last = min(len(segments) - 1, _index_of(segments, ends.last_stable_offset))
    if policy.min_compaction_lag_ms > 0:
        youngest = now_ms - policy.min_compaction_lag_ms
        for index in range(first_dirty, last):
            if segments[index].max_timestamp > youngest:
                return index
    return last
