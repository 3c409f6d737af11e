"""Streams apps with transactions beside the same apps without, in records a second.

The loads and the marks are those of `bench.streams`; outputs are read as committed ones. By their
defaults exactly-once commits ten times a second, at-least-once once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from bench.harness import Case, Goal, Table
from bench.streams import EXACT, FEW_KEYS, JOIN_KEYS, OURS, throughput

LOADS: Final = (
    ("stateless", JOIN_KEYS),
    ("count", FEW_KEYS),
    ("count", 1_000_000),
    ("windowed", FEW_KEYS),
    ("join", JOIN_KEYS),
)
LEAST: Final = 0.85


def tables() -> Iterator[Table]:
    """Measure the throughput of each kind with both guarantees."""
    for kind, keys in LOADS:
        cases = [
            Case("at-least-once", partial(throughput, OURS, kind, keys)),
            Case(EXACT, partial(throughput, EXACT, kind, keys)),
        ]
        goal = Goal(EXACT, "at-least-once", ratio_at_least=LEAST)
        yield Table(f"{kind}, {keys} keys", "records/s", cases, [goal])
