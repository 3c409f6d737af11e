"""The memory of a process of tests: what simulated worlds leave goes back to the system.

A world is a cycle of objects with disks in it, up to 300 MB. Once it is collected, glibc keeps its
memory for the next one, in pieces that do not fit, so that a worker of pytest-xdist grew to 4 GB.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Final

LARGE_MB: Final = 600
"""A process that is smaller keeps its memory."""
_GROWTH: Final = 1.25
_STATM: Final = Path("/proc/self/statm")
_PAGES_PER_MB: Final = 256


def give_back() -> None:
    """Collect garbage, and return what is free to the system."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # glibc has it
            trim(0)


class Bound:
    """Looks at the size of this process after each test, and gives back where it has grown."""

    def __init__(self) -> None:
        self._at_mb: float = LARGE_MB

    def look(self) -> None:
        """Give back if the process is larger than it was to be."""
        if sys.platform == "linux" and _size_mb() > self._at_mb:
            give_back()
            self._at_mb = max(LARGE_MB, _size_mb() * _GROWTH)


def _size_mb() -> float:
    return int(_STATM.read_text().split()[1]) / _PAGES_PER_MB
