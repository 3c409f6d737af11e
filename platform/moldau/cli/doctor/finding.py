"""A finding of `moldau doctor`: one check, what was found, why it matters, and the cure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from moldau.deferred import dataclass

GROUP: Final = "moldau.doctor"
"""The plugin group: functions of the environment that return findings of their layer."""


class Verdict(Enum):
    """What a finding means for moldau on this machine."""

    OK = "ok"
    WARNING = "warning"
    """It works, but slower, with less safety, or not for everything."""
    PROBLEM = "problem"
    """Something that is usual does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. A finding that is not ok says why it matters and what cures it."""

    check: str
    verdict: Verdict
    found: str
    why: str = ""
    cure: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warning(check: str, found: str, why: str, cure: str) -> Finding:
    return Finding(check, Verdict.WARNING, found, why, cure)


def problem(check: str, found: str, why: str, cure: str) -> Finding:
    return Finding(check, Verdict.PROBLEM, found, why, cure)


def size(count: int) -> str:
    """Return a number of bytes as people read it: 512 MiB."""
    value, units = float(count), ("bytes", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            return (
                f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"
            )
        value /= 1024
    raise AssertionError("the last unit takes every number")
