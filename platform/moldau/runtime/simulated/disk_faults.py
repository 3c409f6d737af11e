"""The faults of a simulated disk, their rates, and the cost of its calls in virtual time.

All rates are per call and 0 by default: a disk is healthy unless the fault scheduler or a test
changes that. They may change at any time.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from moldau.deferred import dataclass

Operation: TypeAlias = Literal["read", "write", "sync"]
"""The calls that can fail: reading bytes or names, changing them, or making them durable."""


@dataclass(slots=True)
class DiskFaults:
    """Rates of faults. Short writes appear as the prefix that a failed write leaves behind."""

    read_error: float = 0.0
    """A read fails with EIO."""
    write_error: float = 0.0
    """A write fails with EIO, after a prefix of the bytes was stored."""
    sync_error: float = 0.0
    """A sync fails with EIO; some of the bytes are then never written, though the cache treats them
    as clean. For names it ends the journal: the whole disk is read-only (EROFS) until it is mounted
    again."""
    slow_sync: float = 0.0
    """A sync takes `DiskCosts.slow_sync_ns` more."""
    write_back: float = 0.0
    """Before a write, the kernel writes some dirty sectors."""
    misdirected_write: float = 0.0
    """A sync writes one sector to the place of another, and reports success."""
    bit_rot: float = 0.0
    """A bit of the data that is read has flipped, permanently."""
    capacity_bytes: int | None = None
    """Writes fail with ENOSPC if the files would take more than this; None is no limit."""


@dataclass(slots=True)
class DiskCosts:
    """The virtual time of calls; the defaults are those of a common SSD and its page cache."""

    call_ns: int = 2_000
    kibibyte_ns: int = 250
    sync_ns: int = 500_000
    slow_sync_ns: int = 10_000_000_000


def disk_error(code: int, path: str) -> OSError:
    """Return the subclass of OSError that the real call would raise."""
    return OSError(code, os.strerror(code), path)
