"""The columns of the cases of Streams: what may meet in one app, and what cannot.

An app has a step, a fold and a join, each with an output of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "step": ("map", "flat map", "merge", "repartition", "many topics"),
    "fold": (
        "count",
        "reduce",
        "sum",
        "distinct",
        "cogroup",
        "process",
        "tumbling",
        "hopping",
        "sliding",
        "session",
        "counted",
        "suppress",
        "close",
    ),
    "join": (
        "global",
        "global store",
        "lookup",
        "left lookup",
        "versioned",
        "streams",
        "left streams",
        "to table",
        "table",
        "table process",
        "processed table",
        "regroup",
        "tables",
        "outer tables",
        "foreign key",
        "left foreign key",
    ),
    "engine": ("embedded", "spark"),
    "guarantee": ("exactly_once_v2", "at_least_once"),
    "way": ("sync", "async", "batch", "columns"),
    "branch": ("none", "sibling", "reply"),
    "policy": ("none", "skip", "retry", "dead letter", "app skips", "stop"),
    "writer": ("murmur2", "crc32", "undeclared crc32", "round robin"),
    "odd": ("none", "null keys", "late", "tombstones"),
    "store": ("usual", "no cache", "every update", "small buffers", "no changelog", "in memory"),
    "partitions": ("1", "3"),
    "workers": ("1", "2", "3"),
    "group": ("classic", "streams", "standbys"),
    "host": ("1", "2 shards", "3 nodes", "3 secure nodes"),
    "hand-over": (
        "none",
        "stop",
        "kill leaving",
        "kill heir",
        "kill coordinator",
        "rolling",
        "upgrade",
        "more workers",
        "static",
        "all",
    ),
    "fault": (
        "none",
        "kill",
        "again",
        "broker",
        "wiped",
        "lost",
        "moved",
        "resized",
        "savepoint",
        "divided",
        "forgotten",
    ),
}
"""Names and choices. A new operator or policy is a choice here, or a column.

A store is "wiped" when its worker stops, and "lost" with a worker that is killed; "again" kills a
worker twice, the second time as it starts; with "moved" another worker joins and the first leaves.
"Resized" is a process with two workers that `moldau streams workers` makes three and then one, and
"savepoint" an app that is saved, reset and restored; with "divided" its input gets more partitions
in between. With "forgotten" an app that is stopped has lost the offsets of one input at a time: the
plan and a start notice, and it goes on when it has them again.
With "reply" the app answers requests all along.
With "standbys" a streams group keeps a copy of each state at another worker.
In a "hand-over" workers of a streams group are stopped in order, while records come: one, all one
after the other, or all at once; with kills, an upgrade or more workers meanwhile. "static" members
leave at once, and come back.
"""

_BESIDE_HAND_OVERS: Final = (
    "step", "fold", "join", "way", "branch", "policy", "writer", "odd",
)  # fmt: skip
APART: Final = frozenset(
    {
        frozenset({"fold", "join"}),
        *(frozenset({name, "step"}) for name in ("fold", "join")),
        *(frozenset({name, "hand-over"}) for name in _BESIDE_HAND_OVERS),
    }
)
"""Columns whose choices need not all meet: they share what is in front of them, and no more."""

_SPARK: Final = {"engine": ("spark",)}
_HAND_OVERS: Final = COLUMNS["hand-over"][1:]
_FAULTS: Final = COLUMNS["fault"][1:]
_OF_WORKERS: Final = ("wiped", "lost", "moved", "resized", "savepoint", "divided", "forgotten")

_NOT_DIVIDED: Final = (
    "lookup",
    "left lookup",
    "versioned",
    "to table",
    "table",
    "table process",
    "processed table",
    "regroup",
    "tables",
    "outer tables",
    "foreign key",
    "left foreign key",
)

IMPOSSIBLE: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    # The shards of a killed supervisor end by themselves, a moment later.
    {"host": ("2 shards",), "fault": ("broker",)},
    {"host": ("2 shards",), "hand-over": ("kill coordinator",)},
    # Members of a streams group hand over to others, with no other fault.
    {"hand-over": _HAND_OVERS, "group": ("classic",)},
    {"hand-over": _HAND_OVERS, "workers": ("1",)},
    {"hand-over": _HAND_OVERS, "fault": _FAULTS},
    # With one partition there is nothing to choose.
    {"writer": ("crc32", "undeclared crc32", "round robin"), "partitions": ("1",)},
    # The rows of two tables lie where their writers put them, so the app has to know.
    {"join": ("tables", "outer tables"), "writer": ("undeclared crc32",)},
    # The last line of a key is the last one that was written only if they all are in one partition.
    {"join": ("to table",), "writer": ("round robin",)},
    {"join": ("to table",), "odd": ("null keys",)},
    # An expression that fails does so each time.
    {"way": ("columns",), "policy": ("retry",)},
    # What is lost with its worker has to be there in the end.
    {
        "store": ("no changelog",),
        "fault": ("kill", "again", "wiped", "lost", "moved", "resized", "savepoint", "divided"),
    },
    {"store": ("no changelog",), "policy": ("stop",)},
    {"store": ("no changelog",), "workers": ("2", "3")},
    # Records that count twice go on into more windows.
    {
        "fold": ("counted",),
        "guarantee": ("at_least_once",),
        "fault": ("kill", "again", "broker", "lost"),
    },
    {
        "fold": ("counted",),
        "guarantee": ("at_least_once",),
        "hand-over": ("kill leaving", "kill heir", "kill coordinator"),
    },
    {"fold": ("counted",), "guarantee": ("at_least_once",), "policy": ("stop",)},
    # A copy is at another worker, and of a changelog.
    {"group": ("standbys",), "workers": ("1",)},
    {"group": ("standbys",), "store": ("no changelog",)},
    # Its process has two workers at first, and starts one that fails anew.
    {"fault": ("resized",), "workers": ("1", "3")},
    {"fault": ("resized",), "policy": ("stop",)},
    # What Spark's engine refuses, or has in another place: workers, directories and their stores.
    {**_SPARK, "fold": ("process",)},
    {**_SPARK, "workers": ("2", "3")},
    {**_SPARK, "group": ("streams", "standbys")},
    {**_SPARK, "join": ("global store", "table process", "processed table")},
    {**_SPARK, "branch": ("reply",)},
    {**_SPARK, "host": ("3 secure nodes",)},
    {**_SPARK, "store": ("no cache", "small buffers", "no changelog", "in memory")},
    {**_SPARK, "fault": _OF_WORKERS},
    # Rows that are not kept by the key of a record, and lines of a key in two partitions.
    {"fault": ("divided",), "fold": ("process", "suppress")},
    {"fault": ("divided",), "join": _NOT_DIVIDED},
)


def allowed(case: Mapping[str, str]) -> bool:
    """Whether the case, or the part of one, is possible."""
    return not any(all(case.get(n) in these for n, these in rule.items()) for rule in IMPOSSIBLE)
