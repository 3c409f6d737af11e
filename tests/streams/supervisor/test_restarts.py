"""When a dead worker is started again."""

from __future__ import annotations

from moldau.streams.supervisor.restarts import MISUSED, PAUSE_S_MAX, PAUSE_S_MIN, Restarts


def test_pauses_double_up_to_a_limit() -> None:
    restarts = Restarts()
    pauses = [restarts.on_end(-9, 1.0) for _ in range(10)]
    assert pauses[:3] == [PAUSE_S_MIN, 2 * PAUSE_S_MIN, 4 * PAUSE_S_MIN]
    assert pauses[-1] == PAUSE_S_MAX


def test_a_worker_that_has_lived_starts_again_soon() -> None:
    restarts = Restarts()
    for _ in range(5):
        restarts.on_end(1, 1.0)
    restarts.on_start(100.0)
    assert restarts.on_end(1, 200.0) == PAUSE_S_MIN


def test_wrong_arguments_are_not_tried_again() -> None:
    assert Restarts().on_end(MISUSED, 1.0) is None
