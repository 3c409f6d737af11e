"""Streams apps with transactions beside the same apps without, and beside Kafka Streams without.

In records a second. Kafka Streams has its default, at-least-once, so that one row has both defaults
beside each other. The marks are those of `bench.streams`; outputs are read as committed ones.
At-least-once commits once a second, and so does exactly-once by default while it is behind, as it
is here; else it commits ten times a second, which has a row for the join. Outputs come with
commits, so the loads are those of many seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.harness import Case, Goal, Table
from bench.streams import (
    EXACT,
    EXACT_OFTEN,
    FEW_KEYS,
    JAVA,
    JOIN_KEYS,
    OURS,
    has_kafka_streams,
    throughput,
)

LOADS: Final = (
    ("stateless", JOIN_KEYS, 4_000_000),
    ("count", FEW_KEYS, 8_000_000),
    ("count", 1_000_000, 2_000_000),
    ("windowed", FEW_KEYS, 8_000_000),
    ("join", JOIN_KEYS, 1_000_000),
)
LEAST: Final = 0.9
BESIDE_JAVA: Final = 2.0


def tables() -> Iterator[Table]:
    """Measure the throughput of each kind with both guarantees."""
    for kind, keys, records in LOADS:
        cases = [
            Case("at-least-once", partial(throughput, OURS, kind, keys, records)),
            Case(EXACT, partial(throughput, EXACT, kind, keys, records)),
        ]
        if kind == "join":
            often = partial(throughput, EXACT_OFTEN, kind, keys, records)
            cases.append(Case(EXACT_OFTEN, often))
        goals = [Goal(EXACT, "at-least-once", ratio_at_least=LEAST)]
        if has_kafka_streams():
            cases.append(Case(JAVA, partial(throughput, JAVA, kind, keys, records)))
            goals.append(Goal(EXACT, JAVA, ratio_at_least=BESIDE_JAVA))
        yield Table(f"{kind}, {keys} keys", "records/s", cases, goals)
