"""Which log is cleaned next, and which part of it.

Invariants: what is cleaned ends at the beginning of a segment, before the active one, before the
last stable offset and before everything younger than `min_lag_ms`. A log is due when the dirty
share of what can be cleaned is large enough, or when its oldest dirty record is older than
`max_lag_ms`; the one with the largest share is next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

_INT64_MAX: Final = (1 << 63) - 1
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """What a topic's settings say about cleaning; named as they are."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    delete_retention_ms: int = _DAY_MS


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Where a log begins, is stable and ends."""

    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int


class CleanableSegment(Protocol):
    """What the choice looks at; the last segment of a log is its active one."""

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
    """The state of one log as the cleaner sees it.

    Below `first_dirty_offset` it is clean; from there to `first_uncleanable_offset`, where a
    segment begins, it can be cleaned now. `checkpoint_is_wrong`: the offset up to which it was said
    to be clean is not in the log, so the checkpoint has to be written with `first_dirty_offset`.
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
    """What of a log can be cleaned; `cleaned_offset` is its checkpoint, if it has one."""
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
    # The first dirty segment may begin with what is clean already. It counts as dirty, as a whole,
    # because it has to be read.
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
    """The log to clean next, if any is due; among equals the first."""
    due = [
        (cleanable.dirty_ratio, key)
        for key, cleanable, policy in candidates
        if cleanable.is_due(policy)
    ]
    return max(due, key=lambda each: each[0])[1] if due else None


def _index_of(segments: Sequence[CleanableSegment], offset: int) -> int:
    """The number of the segment in which `offset` is; 0 when it lies before."""
    return max(0, sum(each.base_offset <= offset for each in segments) - 1)


def _first_uncleanable(
    segments: Sequence[CleanableSegment],
    first_dirty: int,
    ends: LogEnds,
    policy: CompactionPolicy,
    now_ms: int,
) -> int:
    """The number of the first segment that may not be touched."""
    last = min(len(segments) - 1, _index_of(segments, ends.last_stable_offset))
    if policy.min_compaction_lag_ms > 0:
        youngest = now_ms - policy.min_compaction_lag_ms
        for index in range(first_dirty, last):
            if segments[index].max_timestamp > youngest:
                return index
    return last
