"""Settings of a server process at its start: limits, allocator, garbage collector, event loop.

Measured reasons: glibc returns large buffers to the kernel each time they are freed; a request with
several of them then runs 3 to 15 times slower. The collector's default thresholds walk a large heap
so often that decoding loses a third. uvloop halves the cost of futures and timers. Nothing is done
on import: a library must not change the process that uses it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from moldau.runtime.forks import import_whole

M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MMAP_THRESHOLD_BYTES = 32 << 20
LARGE_BUFFER_BYTES = 2 << 20
SHARED_TOP_PAD_BYTES = 1 << 20
TRIM_THRESHOLD_BYTES = 256 << 20
TOP_PAD_BYTES = 16 << 20
GC_THRESHOLDS = (50_000, 20, 100)
TURN_S = 0.0005

LoopKind = Literal["auto", "uvloop", "asyncio"]


def raise_open_files() -> int:
    """Raise the limit of open files and sockets to the system's maximum, as a JVM does by itself:
    shells set 1,024, and one topic may need more. Return the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems reject an unlimited number
            return soft
    return hard


def tune_allocator() -> bool:
    """Keep freed memory in the process. Return True if the allocator has these options (glibc)."""
    return _set_options(
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (M_TOP_PAD, TOP_PAD_BYTES),
    )


def share_freed_memory() -> bool:
    """Let all threads use the same freed memory, for a process whose threads have large buffers in
    turn: otherwise each keeps what it has freed. The largest go back to the system: what is freed
    between two that are in use serves nothing else. The heap has no room on top for them, which
    would be taken first. Call it before there are other threads, and after `tune_allocator`. Return
    True if the allocator has these options (glibc)."""
    return _set_options(
        (M_ARENA_MAX, 1),
        (M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES),
        (M_TOP_PAD, SHARED_TOP_PAD_BYTES),
    )


def _set_options(*options: tuple[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    accepted = [mallopt(knob, value) == 1 for knob, value in options]
    return all(accepted)


def tune_collector() -> None:
    """Collect less often, and never again examine existing objects."""
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()


def tune_process() -> bool:
    """Tune collector and allocator of a server, after its imports; True if malloc was tuned."""
    tune_collector()
    return tune_allocator()


class _ShortTurns:
    """The parts of this process that want short turns. The interval is one for all threads, so the
    first part sets it, and the last one that ends restores it, in whatever order they end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._usual_s = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._wanted:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(TURN_S)
            self._wanted += 1

    def end(self) -> None:
        with self._lock:
            self._wanted -= 1
            if not self._wanted:
                sys.setswitchinterval(self._usual_s)


_SHORT_TURNS: Final = _ShortTurns()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns ten times as often as by Python's default. A loop that wakes up beside
    a thread that computes waits for one turn: 0.5 ms instead of 5. Several parts of a process may
    ask for it; the usual turns are back when the last one has ended."""
    _SHORT_TURNS.begin()
    try:
        yield
    finally:
        _SHORT_TURNS.end()


def has_uvloop() -> bool:
    """Whether uvloop is installed; it is not available on every system."""
    try:
        return importlib.util.find_spec("uvloop") is not None
    except ValueError:
        return False  # switched off by None in sys.modules


def new_event_loop(kind: LoopKind = "auto") -> asyncio.AbstractEventLoop:
    """Return an event loop of that kind; "auto" is uvloop if it is installed."""
    if kind == "uvloop" or (kind == "auto" and has_uvloop()):
        loop: asyncio.AbstractEventLoop = import_whole("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
