"""Windowed results of a key lie in one partition, as those of Kafka Streams do."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.records import partition_for_key
from moldau.streams import Streams, session, tumbling
from moldau.streams.plan import operations as op

PARTITIONS = 7


@pytest.mark.parametrize("windows", [tumbling("1m"), session("1m")])
def test_all_windows_of_a_key_go_to_the_partition_of_the_key(windows: Any) -> None:
    app = Streams("app")
    lines = app.stream("lines", str, key=str)
    lines.group_by_key().window(windows).count(name="counts").changes().to("out")
    (program,) = app.plan().programs
    (sink,) = (each.operation for each in program.steps if isinstance(each.operation, op.Sink))

    assert sink.partitioning is not None
    for key in ("a", "b", "a longer key"):
        found = {
            sink.partitioning.partition(sink.key.encode((key, start, start + 60_000)), PARTITIONS)
            for start in range(0, 600_000, 60_000)
        }
        assert found == {partition_for_key(key.encode(), PARTITIONS)}


def test_other_results_are_left_to_the_producer() -> None:
    app = Streams("app")
    app.stream("lines", str, key=str).to("out")
    (program,) = app.plan().programs
    (sink,) = (each.operation for each in program.steps if isinstance(each.operation, op.Sink))

    assert sink.partitioning is None
