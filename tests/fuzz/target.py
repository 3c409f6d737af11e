"""What a fuzz target is, and the one way an input goes through it.

Invariants:
* A decoder answers, or refuses with one of the errors that its target names; anything else that
  comes out is a finding, whatever its type.
* A refusal says why: its text is not empty.
* Time counts as processor time of this process, so that a busy machine is no finding; and what
  took too long is tried again, so that neither is a collection of all garbage that just fell into
  it (seconds, late in a long run of tests). Memory is what Python allocated at the peak, so it
  needs `watch_memory`, which is slow.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MEBIBYTE = 1 << 20


class Finding(AssertionError):
    """An input did what no input may do."""


@dataclass(frozen=True, slots=True)
class Target:
    """A decoder behind one function of bytes, with what it may cost for an input."""

    name: str
    run: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[tuple[str, bytes]]]
    seconds_max: float = 2.0
    memory_bytes_max: int = 16 * MEBIBYTE


def feed(target: Target, data: bytes, *, clock: Callable[[], float] = time.process_time) -> bool:
    """Put one input through; True when it was accepted, False when it was refused as it should."""
    is_watched = tracemalloc.is_tracing()
    if is_watched:
        tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    accepted, took = _timed(target, data, clock)
    if took > target.seconds_max:
        _, again = _timed(target, data, clock)
        if again > target.seconds_max:
            raise Finding(f"{target.name}: {again:.1f} s for {len(data)} bytes")
    peak = tracemalloc.get_traced_memory()[1] - held
    if is_watched and peak > target.memory_bytes_max:
        raise Finding(f"{target.name}: {peak / MEBIBYTE:.1f} MiB for {len(data)} bytes")
    return accepted


def _timed(target: Target, data: bytes, clock: Callable[[], float]) -> tuple[bool, float]:
    """Whether it was accepted, and what that took."""
    start = clock()
    accepted = True
    try:
        target.run(data)
    except target.refusals as refusal:
        accepted = False
        if not str(refusal).strip():
            raise Finding(f"{target.name}: a {type(refusal).__name__} that says nothing") from None
    return accepted, clock() - start


@contextmanager
def watch_memory() -> Iterator[None]:
    """Let `feed` hold memory against its bound while this is open."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()
