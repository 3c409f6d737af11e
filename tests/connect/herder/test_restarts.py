"""Automatic restarts: they wait longer each time, and end where the setting says."""

from __future__ import annotations

import pytest

from moldau.connect.worker.restarts import RestartHistory, RestartPolicy

MIDDLE = 0.5


def test_each_failure_in_a_row_waits_twice_as_long() -> None:
    history, policy = RestartHistory(), RestartPolicy(-1, 100, 100_000)

    waits = []
    for now_ms in (0, 10, 20, 30):
        due_ms = history.on_failure(policy, now_ms, MIDDLE)
        assert due_ms is not None
        waits.append(due_ms - now_ms)

    assert waits == [100, 200, 400, 800]


def test_no_wait_is_longer_than_the_limit_and_luck_spreads_it() -> None:
    policy = RestartPolicy(-1, 100, 1_000)
    history = RestartHistory(in_a_row=1_000)

    assert history.on_failure(policy, 0, 0.0) == 800
    assert RestartHistory(in_a_row=1_000).on_failure(policy, 0, 1.0) == 1_200


def test_after_the_last_restart_it_stays_failed() -> None:
    history, policy = RestartHistory(), RestartPolicy(2, 100, 1_000)

    assert history.on_failure(policy, 0, MIDDLE) is not None
    assert history.on_failure(policy, 0, MIDDLE) is not None
    assert history.on_failure(policy, 0, MIDDLE) is None
    assert history.due_ms is None


def test_running_well_for_long_ends_the_row() -> None:
    history, policy = RestartHistory(), RestartPolicy(1, 100, 1_000)
    history.on_failure(policy, 0, MIDDLE)
    history.on_started(100)

    assert history.on_failure(policy, 600, MIDDLE) is None
    assert history.on_failure(policy, 1_100, MIDDLE) == 1_200


def test_a_person_who_restarts_it_ends_the_row() -> None:
    history, policy = RestartHistory(), RestartPolicy(1, 100, 1_000)
    history.on_failure(policy, 0, MIDDLE)

    history.on_manual()

    assert history.on_failure(policy, 0, MIDDLE) == 100


def test_no_restart_at_all_can_be_wanted() -> None:
    assert RestartHistory().on_failure(RestartPolicy(0), 0, MIDDLE) is None


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
