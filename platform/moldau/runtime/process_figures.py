"""What the operating system says of this process, under the names of Prometheus' own clients.

A figure that a system does not offer is left out.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from moldau.deferred import dataclass

_PAGE_BYTES: Final = 4096
_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
_STARTED_S: Final = time.time()


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """The figures at one moment."""

    cpu_seconds: float
    thread_seconds: float
    """The CPU time of the calling thread: on an event loop, how busy that was."""
    started_seconds: float
    """When the process started, in seconds since 1970; close to it, at least."""
    resident_bytes: int | None
    virtual_bytes: int | None
    open_files: int | None
    open_files_max: int | None
    disk_read_bytes: int | None
    disk_written_bytes: int | None


def process_figures() -> ProcessFigures:
    """Return the figures of now."""
    virtual, resident = _memory()
    read, written = _disk()
    return ProcessFigures(
        cpu_seconds=time.process_time(),
        thread_seconds=time.thread_time(),
        started_seconds=_STARTED_S,
        resident_bytes=resident,
        virtual_bytes=virtual,
        open_files=_open_files(),
        open_files_max=_open_files_max(),
        disk_read_bytes=read,
        disk_written_bytes=written,
    )


def memory_limit() -> int | None:
    """Return the bytes of memory that this process may use: the machine's, or its container's if
    that is less. None if the system does not say."""
    limits = [int(text) for path in _LIMITS if (text := _read(path).strip()).isdigit()]
    with suppress(ValueError, OSError, AttributeError):  # not on every system
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def resident_bytes() -> int | None:
    """Return the bytes of memory that the process has taken from the system."""
    return _memory()[1]


def _memory() -> tuple[int | None, int | None]:
    text = _read("/proc/self/statm").split()
    if len(text) < 2:
        return None, None
    return int(text[0]) * _PAGE_BYTES, int(text[1]) * _PAGE_BYTES


def _disk() -> tuple[int | None, int | None]:
    pairs = (line.partition(":") for line in _read("/proc/self/io").splitlines())
    found = {name: int(value) for name, _, value in pairs if value.strip().isdigit()}
    return found.get("read_bytes"), found.get("write_bytes")


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def _open_files_max() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as opened:
            return opened.read()
    except OSError:
        return ""
