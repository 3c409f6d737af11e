"""What the system says of a directory: its file system, its room, and how long a sync takes.

The directory need not exist: the nearest parent that does is asked instead, since the directory
would be made there. A file is written, synced and removed again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from typing import Final

from moldau.deferred import dataclass

SYNCS: Final = 20
_SYNCING_S_MAX: Final = 0.6
"""On a slow disk fewer syncs are measured."""
_WRITTEN: Final = bytes(16 << 10)
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """A directory, or the nearest of its parents that exists."""

    path: str
    existing: str
    kind: str | None
    """The kind of the file system, as in /proc/mounts; None if the system does not say it."""
    is_noexec: bool
    free_bytes: int
    total_bytes: int
    free_files: int | None
    """How many more files the file system takes; None if it has no such limit."""
    error: str | None
    """Why nothing can be written there."""
    sync_seconds: tuple[float, ...]
    """How long each sync of 16 KiB took."""


def directory_facts(path: str, *, syncs: int = SYNCS) -> DirectoryFacts:
    """Look at a directory, and write a file there that is synced so many times."""
    path = os.path.abspath(os.path.expanduser(path))
    existing = path
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    room = shutil.disk_usage(existing)
    status = os.statvfs(existing) if hasattr(os, "statvfs") else None
    error: str | None = None
    seconds: tuple[float, ...] = ()
    if os.path.exists(path) and not os.path.isdir(path):
        error = "it is a file, not a directory"
    else:
        try:
            seconds = _synced(existing, syncs)
        except OSError as failure:
            error = failure.strerror or str(failure)
    return DirectoryFacts(
        path=path,
        existing=existing,
        kind=_kind(existing),
        is_noexec=status is not None and bool(status.f_flag & getattr(os, "ST_NOEXEC", 0)),
        free_bytes=room.free,
        total_bytes=room.total,
        free_files=status.f_favail if status is not None and status.f_files else None,
        error=error,
        sync_seconds=seconds,
    )


def temporary_directory() -> str:
    """Return the directory for temporary files; the current one if no usual one can be written."""
    return tempfile.gettempdir()


def _synced(folder: str, syncs: int) -> tuple[float, ...]:
    """Write and sync a file repeatedly, and return how long each sync took. Raise OSError."""
    descriptor, path = tempfile.mkstemp(prefix=".moldau-doctor-", dir=folder)
    try:
        taken: list[float] = []
        while len(taken) < syncs and sum(taken) < _SYNCING_S_MAX:
            os.write(descriptor, _WRITTEN)
            begun = time.perf_counter()
            os.fsync(descriptor)
            taken.append(time.perf_counter() - begun)
        return tuple(taken)
    finally:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(path)


def _kind(path: str) -> str | None:
    """Return the kind of the file system that this directory is on."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            lines = mounts.read().splitlines()
    except OSError:
        return None
    real, best, kind = os.path.realpath(path), "", None
    for line in lines:
        head, _, tail = line.partition(" - ")
        words = head.split()
        if len(words) < 5 or not tail:
            continue
        point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), words[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of several at one point, the last counts
            best, kind = point, tail.split()[0]
    return kind
