"""When a process, a task or a service that failed is started again."""

from __future__ import annotations

from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy, Restarts

POLICY = RestartPolicy(Backoff(100, 1_000), steady_ms=500)


def pauses(restarts: Restarts, count: int) -> list[int | None]:
    return [restarts.on_failure(10 * each) for each in range(count)]


def test_each_failure_in_a_row_waits_twice_as_long_up_to_a_limit() -> None:
    assert pauses(Restarts(POLICY), 6) == [100, 200, 400, 800, 1_000, 1_000]


def test_a_long_row_of_failures_waits_no_longer_than_the_limit() -> None:
    restarts = Restarts(POLICY, in_a_row=10_000)
    assert restarts.on_failure(0) == 1_000


def test_luck_spreads_restarts_by_a_fifth() -> None:
    assert Restarts(POLICY).on_failure(0, 0.0) == 80
    assert Restarts(POLICY).on_failure(0, 1.0) == 120


def test_a_steady_run_ends_the_row() -> None:
    restarts = Restarts(POLICY)
    pauses(restarts, 3)
    restarts.on_up(1_000)
    assert restarts.on_failure(1_499) == 800
    restarts.on_up(3_000)
    assert restarts.on_failure(3_500) == 100


def test_a_time_without_a_run_does_not_end_the_row() -> None:
    restarts = Restarts(POLICY)
    restarts.on_up(0)
    assert restarts.on_failure(10) == 100
    assert restarts.on_failure(10_000) == 200, "it never came up in between"


def test_it_is_due_once_after_its_pause() -> None:
    restarts = Restarts(POLICY)
    restarts.on_failure(50)
    assert restarts.due_ms == 150
    assert not restarts.take_due(149)
    assert restarts.take_due(150)
    assert not restarts.take_due(10_000)
    assert restarts.total == 1
    assert Restarts(POLICY).due_ms is None


def test_after_the_last_failure_it_stays_as_it_is() -> None:
    restarts = Restarts(RestartPolicy(Backoff(100, 1_000), steady_ms=500, failures_max=3))
    assert pauses(restarts, 4) == [100, 200, None, None]
    assert not restarts.take_due(100_000)


def test_no_restart_at_all_can_be_wanted() -> None:
    assert Restarts(RestartPolicy(failures_max=1)).on_failure(0) is None


def test_a_user_who_restarts_it_ends_the_row_and_what_is_due() -> None:
    restarts = Restarts(POLICY)
    pauses(restarts, 3)
    restarts.forget()
    assert restarts.due_ms is None
    assert restarts.on_failure(0) == 100
