"""What the operating system says of this process, and how much of the machine it may use.

The figures have the names of Prometheus' own clients. One that a system does not offer is left out.
A limit of a container or a unit of systemd is that of its control group or of one above it, whose
paths may be those of the host: the root that the container sees counts in any case.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from moldau.deferred import dataclass

_PAGE_BYTES: Final = 4096
_GROUPS: Final = "/sys/fs/cgroup"
_OWN_GROUPS: Final = "/proc/self/cgroup"
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
    limits = [
        int(text)
        for folder in _group_folders("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(f"{folder}/{name}").strip()).isdigit()
    ]
    with suppress(ValueError, OSError, AttributeError):  # not on every system
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def usable_cores() -> float:
    """Return the cores that this process may use: its affinity, or a limit of its container if that
    is less, which may be a part of a core."""
    limits: list[float] = [os.cpu_count() or 1]
    if sys.platform == "linux":
        limits.append(len(os.sched_getaffinity(0)))
    for folder in _group_folders("cpu"):
        quotas = (
            _read(f"{folder}/cpu.max").split(),
            [_read(f"{folder}/cpu.cfs_{each}_us").strip() for each in ("quota", "period")],
        )
        limits += [
            int(quota[0]) / int(quota[1])
            for quota in quotas
            if len(quota) == 2 and all(each.isdigit() and int(each) for each in quota)
        ]
    return min(limits)


def core_count() -> int:
    """Return the number of cores that this process may use, a part of one counted as one."""
    return math.ceil(usable_cores())


def most_cores() -> int:
    """Return the cores for the processes of one program: of four cores one is left to others."""
    cores = core_count()
    return cores - cores // 4


def resident_bytes() -> int | None:
    """Return the bytes of memory that the process has taken from the system."""
    return _memory()[1]


def _group_folders(controller: str) -> Iterator[str]:
    """Yield the folders of the control groups that limit this process: of version 2, and those of
    this controller of version 1."""
    paths = {_GROUPS: "", f"{_GROUPS}/{controller}": ""}
    for line in _read(_OWN_GROUPS).splitlines():
        number, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if number == "0":
            paths[_GROUPS] = path
        elif controller in controllers.split(","):
            paths[f"{_GROUPS}/{controller}"] = path
    for root, path in paths.items():
        yield (folder := root)
        for name in filter(None, path.split("/")):
            yield (folder := f"{folder}/{name}")


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
        with open(path, encoding="ascii", errors="surrogateescape") as opened:
            return opened.read()
    except OSError:
        return ""
