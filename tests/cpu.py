"""CPU that tests take, with the processes that they leave running.

A process counts its children when they have ended. Spark's JVM and the shared brokers end long
after the tests that they work for, so a test of Spark seemed to take nothing. `of_all` looks at the
running ones too. It reads a file for each process, so quick tests are measured by `of_ended`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_USED: Final = slice(11, 15)
"""Of the fields of `stat` behind the name: user and system, of the process and of its children that
have ended."""


def of_ended() -> float:
    """Return the CPU seconds of this process and of those of its children that have ended."""
    return sum(os.times()[:4])


def of_all() -> float:
    """Return those of this process and of all below it. Where there is no /proc: `of_ended`."""
    return of_ended() + sum(_used_s(pid) for pid in _below(os.getpid()))


def _below(pid: int) -> list[int]:
    """Return the processes that this one has started, and those that they have."""
    found: list[int] = []
    left = [pid]
    while left:
        children = _children(left.pop())
        found += children
        left += children
    return found


def _children(pid: int) -> list[int]:
    """Return the children of all threads of the process; none if it has ended."""
    try:
        files = [each / "children" for each in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []
    return [int(child) for each in files for child in _text(each).split()]


def _used_s(pid: int) -> float:
    fields = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return sum(map(int, fields[_USED])) / _TICKS


def _text(path: Path) -> str:
    """Return what the file has; nothing if its process has ended."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
