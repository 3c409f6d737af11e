"""Which nodes `moldau cluster up` starts again, and when."""

from __future__ import annotations

from moldau.cli.commands.cluster_restarts import FAILURES_MAX, STEADY_S, Restarts

KILLED = -9


def test_a_node_that_was_stopped_stays_stopped() -> None:
    restarts = Restarts()
    restarts.on_up(1, 0)
    assert restarts.on_end(1, 0, 5) is None
    assert not restarts.are_pending


def test_a_node_that_failed_is_due_once_after_its_pause() -> None:
    restarts = Restarts()
    restarts.on_up(1, 0)
    assert restarts.on_end(1, KILLED, 5) == 1
    assert restarts.are_pending
    assert restarts.take_due(5.9) == []
    assert restarts.take_due(6) == [1]
    assert restarts.take_due(60) == []
    assert not restarts.are_pending


def test_the_pause_doubles_until_the_node_stays_as_it_is() -> None:
    restarts = Restarts()
    pauses = [restarts.on_end(1, 1, 100 * each) for each in range(FAILURES_MAX)]
    assert pauses == [1, 2, 4, 8, 16, None]
    assert restarts.on_end(2, 1, 0) == 1  # another node has failures of its own


def test_a_node_that_was_up_for_long_begins_anew() -> None:
    restarts = Restarts()
    for _ in range(3):
        restarts.on_end(1, KILLED, 0)
    restarts.on_up(1, 10)
    assert restarts.on_end(1, KILLED, 10 + STEADY_S) == 1
    restarts.on_up(1, 30)
    assert restarts.on_end(1, KILLED, 30 + STEADY_S - 1) == 2
