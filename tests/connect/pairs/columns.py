"""The columns of the cases of Connect: what may meet in a chain of connectors, and what cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "database": ("sqlite", "postgresql"),
    "source": ("incrementing", "timestamp", "timestamp+incrementing"),
    "sink": ("upsert", "insert", "lines"),
    "converter": ("json with schemas", "avro"),
    "transform": ("none", "insert", "cast", "replace", "mask"),
    "once": ("exactly", "at least"),
    "tolerance": ("none", "all", "dead letters"),
    "bad": ("none", "undecodable", "refused"),
    "commits": ("in order", "late"),
    "workers": ("1", "2"),
    "fault": ("none", "worker", "task", "broker", "stop"),
}
"""Names and choices. A new connector, transform or converter is a choice here."""

IMPOSSIBLE: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    # A sink without tolerance ends at a bad record: another test shows that.
    {"tolerance": ("none",), "bad": ("undecodable", "refused")},
    # The sinks that have no key take what the converter reads.
    {"sink": ("insert", "lines"), "bad": ("refused",)},
    # The bad rows are written as JSON.
    {"converter": ("avro",), "bad": ("refused",)},
    # Of SQLite's writers one has its transaction at a time.
    {"database": ("sqlite",), "commits": ("late",)},
)


def allowed(case: Mapping[str, str]) -> bool:
    """Whether the case, or the part of one, is possible."""
    return not any(all(case.get(n) in these for n, these in rule.items()) for rule in IMPOSSIBLE)
