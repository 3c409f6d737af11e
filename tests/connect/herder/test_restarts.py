"""Automatic restarts: what their settings mean, and how long a status names the last error."""

from __future__ import annotations

import pytest

from moldau.connect.worker.restarts import RestartHistory
from moldau.connect.worker.settings import restart_policy
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy, Restarts


def test_settings_of_a_connector_come_before_those_of_the_worker() -> None:
    worker = {"errors.restart.max": "7", "errors.restart.backoff.ms": "50"}
    connector = {"errors.restart.max": "2", "errors.restart.backoff.max.ms": "1000"}
    assert restart_policy(worker, connector) == RestartPolicy(Backoff(50, 1_000), 1_000, 3)
    assert restart_policy({}, {}) == RestartPolicy(Backoff(1_000, 300_000), 300_000, None)


def test_no_restart_at_all_can_be_wanted() -> None:
    policy = restart_policy({}, {"errors.restart.max": "0"})
    assert Restarts(policy).on_failure(0) is None


@pytest.mark.parametrize(
    ("now_ms", "metrics", "is_kept"),
    [
        (5_000, {}, True),
        (5_000, {"sink-record-lag": 0.0}, True),
        (90_000, {"sink-record-lag": 5.0}, True),
        (5_000, {"sink-record-lag": 4.0, "sink-record-send-total": 1.0}, False),
        (5_000, {"source-record-write-total": 1.0}, False),
        (90_000, {"sink-record-lag": 0.0}, False),
    ],
)
def test_the_last_error_is_kept_until_there_is_progress(
    now_ms: int, metrics: dict[str, float], is_kept: bool
) -> None:
    history = RestartHistory(last_error="the database is down")
    history.on_started(1_000)

    history.on_metrics(now_ms, metrics)

    assert (history.last_error is not None) is is_kept
