"""Windows as plain data. Times are milliseconds; starts are inclusive."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.streams.durations import Duration, in_words, milliseconds
from moldau.streams.problems import TopologyError


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows [start, start + size) at every multiple of `advance_ms`."""

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    @property
    def kept(self) -> str:
        """What may not change while windows are kept, here and below: all but the grace."""
        return f"{in_words(self.size_ms)} every {in_words(self.advance_ms)}"

    def __str__(self) -> str:
        if self.size_ms == self.advance_ms:
            return f"tumbling {in_words(self.size_ms)}, grace {in_words(self.grace_ms)}"
        return (
            f"hopping {in_words(self.size_ms)} every {in_words(self.advance_ms)}, "
            f"grace {in_words(self.grace_ms)}"
        )


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """A window for each record and each distinct neighbourhood; both ends are inside."""

    difference_ms: int
    grace_ms: int = 0

    @property
    def kept(self) -> str:
        return f"sliding {in_words(self.difference_ms)}"

    def __str__(self) -> str:
        return f"sliding {in_words(self.difference_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records of a key that are at most `gap_ms` apart; both ends are inside."""

    gap_ms: int
    grace_ms: int = 0

    @property
    def kept(self) -> str:
        return f"sessions with a gap of {in_words(self.gap_ms)}"

    def __str__(self) -> str:
        return f"session gap {in_words(self.gap_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from `start_ms` on, which never ends."""

    start_ms: int = 0

    @property
    def kept(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"unlimited from {self.start_ms}"


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Windows of `size` records of a key, a new one every `advance` records."""

    size: int
    advance: int

    @property
    def kept(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.size} records every {self.advance}"


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows | CountWindows


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows side by side: each record is in one."""
    return hopping(size, advance=size, grace=grace)


def hopping(size: Duration, *, advance: Duration, grace: Duration = 0) -> TimeWindows:
    """Windows of `size` that start every `advance`: a record is in several."""
    windows = TimeWindows(
        _positive(size, "window size"),
        _positive(advance, "window advance"),
        _grace(grace),
    )
    if windows.advance_ms > windows.size_ms:
        raise TopologyError(
            f"window advance {in_words(windows.advance_ms)} is more than its size "
            f"{in_words(windows.size_ms)}: records between windows would be in none"
        )
    return windows


def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """A window for each set of records that are at most `difference` apart."""
    difference_ms = milliseconds(difference, "sliding window")
    if difference_ms < 0:
        raise TopologyError(f"sliding window: {difference!r} must not be negative")
    return SlidingWindows(difference_ms, _grace(grace))


def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Windows that last as long as records come at most `gap` apart."""
    return SessionWindows(_positive(gap, "session gap"), _grace(grace))


def unlimited(start_ms: int = 0) -> UnlimitedWindows:
    """One window that never ends; records before `start_ms` are in none."""
    if start_ms < 0:
        raise TopologyError(f"unlimited window: start_ms={start_ms} must not be negative")
    return UnlimitedWindows(start_ms)


def count_window(size: int, *, advance: int | None = None) -> CountWindows:
    """Windows of `size` records of a key: side by side, or a new one every `advance` records."""
    advance = size if advance is None else advance
    if size < 1 or not 1 <= advance <= size:
        raise TopologyError(
            f"count window: needs 1 <= advance <= size, got size={size} advance={advance}"
        )
    return CountWindows(size, advance)


def _positive(duration: Duration, what: str) -> int:
    found = milliseconds(duration, what)
    if found <= 0:
        raise TopologyError(f"{what}: {duration!r} must be above 0")
    return found


def _grace(duration: Duration) -> int:
    found = milliseconds(duration, "grace")
    if found < 0:
        raise TopologyError(f"grace: {duration!r} must not be negative")
    return found
