"""What a simulated disk does wrong, how often, and what its calls cost in virtual time.

All rates are per call, 0 by default: a disk is healthy until the fault scheduler or a test says
otherwise. They may change at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["read", "write", "sync"]
"""What can fail: reading bytes or names, changing bytes or names, making either durable."""


@dataclass(slots=True)
class DiskFaults:
    """Rates of faults. Short writes show as the prefix that a failed write leaves behind."""

    read_error: float = 0.0
    """EIO."""
    write_error: float = 0.0
    """EIO, after a prefix of the bytes was stored."""
    sync_error: float = 0.0
    """EIO, after which some of the bytes are never written though the cache takes them for clean.
    For names it is the end of the journal: the whole disk is read-only (EROFS) until mounted anew.
    """
    slow_sync: float = 0.0
    """The sync takes `DiskCosts.slow_sync_ns` more."""
    write_back: float = 0.0
    """At a write, the kernel first writes some dirty sectors on its own."""
    misdirected_write: float = 0.0
    """A sync puts one sector in the place of another, and reports success."""
    bit_rot: float = 0.0
    """A bit within what is read has flipped, for good."""
    capacity_bytes: int | None = None
    """ENOSPC when the files would take more than this; None is no limit."""


@dataclass(slots=True)
class DiskCosts:
    """Virtual time of calls; the defaults are those of a common SSD and its page cache."""

    call_ns: int = 2_000
    kibibyte_ns: int = 250
    sync_ns: int = 500_000
    slow_sync_ns: int = 10_000_000_000


def disk_error(code: int, path: str) -> OSError:
    """The subclass of OSError that the real call would raise."""
    return OSError(code, os.strerror(code), path)
