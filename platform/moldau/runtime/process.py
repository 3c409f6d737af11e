"""What a server process sets once, at its start: limits, allocator, collector, event loop.

Measured reasons. glibc gives large buffers back to the kernel each time they are freed; a request
that handles several of them then runs 3 to 15 times slower. The collector's default thresholds walk
a large heap so often that decoding loses a third. uvloop halves the cost of futures and timers.
None of it is done on import: a library must not change the process it is used in.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib.util
from typing import Literal

from moldau.runtime.forks import import_whole

M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3

MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = 256 << 20
TOP_PAD_BYTES = 16 << 20
GC_THRESHOLDS = (50_000, 20, 100)

LoopKind = Literal["auto", "uvloop", "asyncio"]


def raise_open_files() -> int:
    """Lets the process open as many files and sockets as the system allows it, as a JVM does by
    itself: shells give 1,024, less than one topic may need. How many those are."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # no limit at all is more than some systems take
            return soft
    return hard


def tune_allocator() -> bool:
    """Keeps freed memory in the process. True where the allocator has these knobs (glibc)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = (
        (M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        (M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        (M_TOP_PAD, TOP_PAD_BYTES),
    )
    accepted = [mallopt(knob, value) == 1 for knob, value in settings]
    return all(accepted)


def tune_collector() -> None:
    """Collects less often, and never again looks at what exists already."""
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()


def tune_process() -> bool:
    """All of the above; for the start of a server, after its imports. True if malloc was tuned."""
    tune_collector()
    return tune_allocator()


def has_uvloop() -> bool:
    """Whether uvloop is installed; it is not on every system."""
    try:
        return importlib.util.find_spec("uvloop") is not None
    except ValueError:
        return False  # switched off by None in sys.modules


def new_event_loop(kind: LoopKind = "auto") -> asyncio.AbstractEventLoop:
    """An event loop of that kind; "auto" is uvloop where there is one."""
    if kind == "uvloop" or (kind == "auto" and has_uvloop()):
        loop: asyncio.AbstractEventLoop = import_whole("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
