"""Java's consumer perf tool as the member of a group, on our broker and on Apache Kafka.

The same tables as in `bench.broker`, by themselves: a run of the tool takes some seconds and is up
to a third from the next, so they want more rounds than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.broker import COUNTS, java_in_a_group
from bench.harness import Table


def tables() -> Iterator[Table]:
    """One for each size of records."""
    return map(java_in_a_group, COUNTS)
