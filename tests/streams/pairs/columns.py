"""The columns of the cases of Streams: what may meet in one app, and what cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "operator": (
        "map",
        "count",
        "reduce",
        "collect",
        "window",
        "session",
        "cogroup",
        "table",
        "foreign key",
        "global",
    ),
    "guarantee": ("exactly_once_v2", "at_least_once"),
    "way": ("sync", "async", "batch"),
    "branch": ("none", "sibling"),
    "policy": ("none", "skip", "retry", "dead letter", "app skips"),
    "writer": ("murmur2", "crc32", "undeclared crc32", "round robin"),
    "odd": ("none", "null keys", "late", "tombstones"),
    "partitions": ("1", "3"),
    "workers": ("1", "2"),
    "fault": ("none", "kill", "broker", "wiped", "again"),
}
"""Names and choices. A new operator or policy is a choice here, or a column."""

_BY_KEY: Final = ("table", "foreign key")
"""Operators that read a topic as a table: a key has one partition, and a null value removes it."""

IMPOSSIBLE: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {"operator": _BY_KEY, "writer": ("round robin",)},
    # With one partition there is nothing to choose.
    {"writer": ("crc32", "undeclared crc32", "round robin"), "partitions": ("1",)},
    {
        "operator": tuple(each for each in COLUMNS["operator"] if each not in _BY_KEY),
        "odd": ("tombstones",),
    },
    # A table has no steps before its operator, and so no branch beside them.
    {"operator": _BY_KEY, "branch": ("sibling",)},
    # A table's functions are synchronous.
    {"operator": _BY_KEY, "way": ("async", "batch")},
    # What a step of a table does with a value that fails is another column, not yet here.
    {"operator": _BY_KEY, "policy": ("skip", "retry", "dead letter", "app skips")},
)


def allowed(case: Mapping[str, str]) -> bool:
    """Whether the case, or the part of one, is possible."""
    return not any(all(case.get(n) in these for n, these in rule.items()) for rule in IMPOSSIBLE)


def is_table(case: Mapping[str, str]) -> bool:
    return case["operator"] in _BY_KEY
