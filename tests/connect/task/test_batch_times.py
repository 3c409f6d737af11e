"""The times of batches, over the last minute."""

from __future__ import annotations

from moldau.connect.task.batch_times import BatchTimes


def test_the_longest_and_the_mean_of_the_last_minute() -> None:
    times = BatchTimes("put-batch")
    assert times.figures(0) == {"put-batch-max-time-ms": 0.0, "put-batch-avg-time-ms": 0.0}
    times.note(0, 10)
    times.note(100, 130)
    assert times.figures(130) == {"put-batch-max-time-ms": 30.0, "put-batch-avg-time-ms": 20.0}
    times.note(40_000, 40_005)
    assert times.figures(40_005) == {"put-batch-max-time-ms": 30.0, "put-batch-avg-time-ms": 15.0}
    assert times.figures(60_010) == {"put-batch-max-time-ms": 5.0, "put-batch-avg-time-ms": 5.0}
    assert times.figures(200_000)["put-batch-max-time-ms"] == 0.0
