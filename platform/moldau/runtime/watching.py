"""The files of a folder and when they changed, for a program that starts again after a change.

The folder is scanned: that needs nothing of the system, and sees changes on disks that other
machines share. A scan is bounded, so a folder with a forest of data costs little.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Final

FILES_MAX: Final = 5_000
_ENTRIES_MAX: Final = 50_000
_SKIPPED: Final = frozenset(("__pycache__", "node_modules", "build", "dist"))

Stamps = dict[str, tuple[int, int]]
"""The time of change in nanoseconds and the size of each file, by its path in the folder."""


def stamps(directory: str, suffixes: Collection[str]) -> Stamps:
    """Return the stamps of the files with these suffixes, of FILES_MAX at most. Hidden folders,
    those of environments and of what is built are left out, as are links to folders."""
    found: Stamps = {}
    for path, status in _files(directory, tuple(suffixes)):
        found[os.path.relpath(path, directory)] = (status.st_mtime_ns, status.st_size)
        if len(found) == FILES_MAX:
            break
    return found


def _files(directory: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    left, folders = _ENTRIES_MAX, [directory]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # it is gone, or not for us
            continue
        if any(each.name == "pyvenv.cfg" for each in entries):
            continue
        for each in sorted(entries, key=lambda entry: entry.name):
            left -= 1
            if left == 0:
                return
            try:
                if each.is_dir(follow_symlinks=False):
                    if each.name not in _SKIPPED and not each.name.startswith("."):
                        folders.append(each.path)
                elif each.name.endswith(suffixes):
                    yield each.path, each.stat()
            except OSError:
                continue
