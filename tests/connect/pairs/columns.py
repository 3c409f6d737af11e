"""The columns of the cases of Connect: what may meet in a chain of connectors, and what cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "database": ("sqlite", "postgresql", "mariadb"),
    "source": (
        "incrementing",
        "timestamp",
        "timestamp+incrementing",
        "lines",
        "jsonl",
        "parquet",
    ),
    "sink": ("upsert", "insert", "exact insert", "lines", "jsonl", "rolls", "parquet"),
    "converter": (
        "json with schemas",
        "plain json",
        "avro",
        "protobuf",
        "json schema",
        "string",
    ),
    "transform": ("none", "insert", "cast", "replace", "rename", "mask", "key", "route"),
    "type": ("whole", "decimal", "double", "bytes", "date", "time"),
    "once": ("exactly", "at least"),
    "tolerance": ("none", "all", "dead letters"),
    "bad": ("none", "undecodable", "refused"),
    "commits": ("in order", "late"),
    "change": ("none", "column"),
    "workers": ("1", "2"),
    "fault": ("none", "worker", "task", "broker", "stop", "database"),
}
"""Names and choices. A new connector, transform or converter is a choice here.

A "type" is that of the column with edges; with a "change" the table gets one more column; the fault
"database" kills the server of both databases.
"""

_FILES: Final = ("lines", "jsonl", "parquet")
_TO_FILES: Final = ("lines", "jsonl", "rolls", "parquet")
_REGISTERED: Final = ("avro", "protobuf", "json schema")


def _but(name: str, *choices: str) -> tuple[str, ...]:
    return tuple(each for each in COLUMNS[name] if each not in choices)


IMPOSSIBLE: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    # A sink without tolerance ends at a bad record: another test shows that.
    {"tolerance": ("none",), "bad": ("undecodable", "refused")},
    # The sinks that have no key take what the converter reads.
    {"sink": _but("sink", "upsert"), "bad": ("refused",)},
    # The bad rows are written as JSON, with whole numbers.
    {"converter": _but("converter", "json with schemas"), "bad": ("refused",)},
    {"type": _but("type", "whole"), "bad": ("refused",)},
    # Of SQLite's writers one has its transaction at a time. It is no server, and has few types.
    {"database": ("sqlite",), "commits": ("late",)},
    {"database": ("sqlite",), "fault": ("database",)},
    {"database": ("sqlite",), "type": ("decimal", "date", "time")},
    # Lines are texts from end to end.
    {"source": ("lines",), "converter": _but("converter", "string")},
    {"source": _but("source", "lines"), "converter": ("string",)},
    {"sink": ("lines",), "converter": _but("converter", "string")},
    {"sink": _but("sink", "lines"), "converter": ("string",)},
    {"converter": ("string",), "transform": _but("transform", "none", "route")},
    {"converter": ("string",), "bad": ("undecodable",)},
    # JSON lines have no schema, and whole numbers alone of these types; Parquet has one.
    {"source": ("jsonl",), "converter": _but("converter", "plain json")},
    {"source": ("parquet",), "converter": ("plain json", "string")},
    {"sink": ("parquet",), "converter": ("plain json",)},
    {"source": _FILES, "type": _but("type", "whole")},
    {"sink": _TO_FILES, "type": _but("type", "whole")},
    {"converter": ("plain json",), "type": _but("type", "whole", "double")},
    {"transform": ("cast",), "type": _but("type", "whole")},
    # Files have no transactions, and what is in a file of Parquet stays.
    {"source": _FILES, "commits": ("late",)},
    {"source": ("lines", "parquet"), "change": ("column",)},
    # The registry takes no new property in an open object, as Confluent's does not.
    {"converter": ("json schema",), "change": ("column",)},
    # There a database has to be.
    {"source": _FILES, "sink": _TO_FILES, "fault": ("database",)},
)


def allowed(case: Mapping[str, str]) -> bool:
    """Whether the case, or the part of one, is possible."""
    return not any(all(case.get(n) in these for n, these in rule.items()) for rule in IMPOSSIBLE)


def reads_files(case: Mapping[str, str]) -> bool:
    return case["source"] in _FILES


def writes_files(case: Mapping[str, str]) -> bool:
    return case["sink"] in _TO_FILES
