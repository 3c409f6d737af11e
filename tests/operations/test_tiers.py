"""What waits for its copy, from what a leader reports."""

from __future__ import annotations

import pytest

from moldau.client import TopicPartition
from moldau.operations.tiers import PartitionTiers


def tiers(
    pending: int | None, *, local_start: int = 0, end: int = 100, local_bytes: int | None = 1_000
) -> PartitionTiers:
    where = TopicPartition("orders", 0)
    return PartitionTiers(where, bytes(16), 0, local_start, end, pending, local_bytes)


@pytest.mark.parametrize(
    ("found", "records", "size_bytes"),
    [
        (tiers(0), 100, 1_000),
        (tiers(75), 25, 250),
        (tiers(100), 0, 0),
        (tiers(130), 0, 0),  # the end was asked before
        (tiers(None), None, None),
        (tiers(75, local_bytes=None), 25, None),
        (tiers(75, local_start=50), 25, 500),
        (tiers(100, local_start=100), 0, 0),
    ],
)
def test_a_backlog_is_measured_by_the_records_of_the_disk(
    found: PartitionTiers, records: int | None, size_bytes: int | None
) -> None:
    assert found.backlog_records == records
    assert found.backlog_bytes(0, 0) == size_bytes


def test_a_backlog_has_the_size_of_remote_records_where_there_are_some() -> None:
    """Files of what is remote may still be on the disk, and would count for the others."""
    assert tiers(80, local_start=80).backlog_bytes(800, 80) == 200
    assert tiers(80, local_start=80, local_bytes=90).backlog_bytes(800, 80) == 90
    assert tiers(80, local_bytes=None).backlog_bytes(800, 80) is None
