"""Java's consumer perf tool as the member of a group, on our broker and on Apache Kafka.

These are the same tables as in `bench.broker`, in an area of their own: a run of the tool takes
some seconds, and two runs differ by up to a third, so these tables need more rounds than the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.broker import COUNTS, java_in_a_group
from bench.harness import Table


def tables() -> Iterator[Table]:
    """Return a table for each size of records."""
    return map(java_in_a_group, COUNTS)
