"""The page of metrics of a worker."""

from __future__ import annotations

from moldau.connect.rest.exposition import metric_name, metrics_of
from moldau.metrics import render_prometheus


def test_large_counts_and_times_have_all_their_digits() -> None:
    count = metric_name("sink-task-metrics", "sink-record-read-total")
    at = metric_name("task-error-metrics", "last-error-timestamp")
    samples = [(count, {"task": "0"}, 12_345_678.0), (at, {}, 1_795_831_200_123.0)]
    lines = [
        each
        for each in render_prometheus(metrics_of(samples)).splitlines()
        if not each.startswith("#")
    ]
    assert lines == [f'{count}{{task="0"}} 12345678', f"{at} 1795831200123"]
