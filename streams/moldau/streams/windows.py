"""Windows as plain data. Times are milliseconds; starts are inclusive."""

from __future__ import annotations

from moldau.deferred import dataclass
from moldau.errors.amounts import counted
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
        """What may not change while a store holds windows: all but the grace. The same below."""
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
    """A window for each distinct set of records at most `difference_ms` apart, ends inclusive."""

    difference_ms: int
    grace_ms: int = 0

    @property
    def kept(self) -> str:
        return f"sliding {in_words(self.difference_ms)}"

    def __str__(self) -> str:
        return f"sliding {in_words(self.difference_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows of the records of a key that are at most `gap_ms` apart; both ends are inclusive."""

    gap_ms: int
    grace_ms: int = 0

    @property
    def kept(self) -> str:
        return f"sessions with a gap of {in_words(self.gap_ms)}"

    def __str__(self) -> str:
        return f"session gap {in_words(self.gap_ms)}, grace {in_words(self.grace_ms)}"


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that starts at `start_ms` and never ends."""

    start_ms: int = 0

    @property
    def kept(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"unlimited from {self.start_ms}"


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Windows of `size` records of a key; a new one starts every `advance` records."""

    size: int
    advance: int

    @property
    def kept(self) -> str:
        return f"{self.size} records every {self.advance}"

    def __str__(self) -> str:
        return f"{counted(self.size, 'record')} every {self.advance}"


Windows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows | CountWindows


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Return windows of `size` side by side: each record is in exactly one."""
    return hopping(size, advance=size, grace=grace)


def hopping(size: Duration, *, advance: Duration, grace: Duration = 0) -> TimeWindows:
    """Return windows of `size` that start every `advance`: a record is in several."""
    windows = TimeWindows(
        _positive(size, "window size"), _positive(advance, "window advance"), _grace(grace)
    )
    if windows.advance_ms > windows.size_ms:
        raise TopologyError(
            f"window advance {in_words(windows.advance_ms)} is more than its size "
            f"{in_words(windows.size_ms)}: records between windows would be in none"
        )
    return windows


def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """Return a window for each distinct set of records that are at most `difference` apart."""
    difference_ms = milliseconds(difference, "sliding window")
    if difference_ms < 0:
        raise TopologyError(f"sliding window: {difference!r} must not be negative")
    return SlidingWindows(difference_ms, _grace(grace))


def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Return windows that grow while the records of a key arrive at most `gap` apart."""
    return SessionWindows(_positive(gap, "session gap"), _grace(grace))


def unlimited(start_ms: int = 0) -> UnlimitedWindows:
    """Return one window that never ends. Records before `start_ms` are in no window."""
    if start_ms < 0:
        raise TopologyError(f"unlimited window: start_ms={start_ms} must not be negative")
    return UnlimitedWindows(start_ms)


def count_window(size: int, *, advance: int | None = None) -> CountWindows:
    """Return windows of `size` records of a key: side by side, or one every `advance` records."""
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
