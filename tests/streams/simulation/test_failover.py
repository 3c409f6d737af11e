"""Tasks of a worker that goes: with a standby nothing is restored, and the others never wait."""

from __future__ import annotations

import pytest

from tests.streams.simulation.failover import SESSION_S, take_over


def test_after_a_kill_a_standby_takes_over_when_the_session_ends_without_a_restore() -> None:
    seen = take_over(1, standbys=1, end="kill")
    assert seen.seconds < SESSION_S + 1.0, "an open transaction of the killed one is not waited for"
    assert seen.restored < 40, "the last commit at most"


@pytest.mark.deep
def test_a_standby_takes_over_at_once_from_a_worker_that_leaves() -> None:
    seen = take_over(1, standbys=1, end="stop")
    assert seen.seconds < 1.0
    assert seen.restored < 40


def test_other_tasks_go_on_while_one_is_restored() -> None:
    seen = take_over(1, standbys=0, end="stop", records_at_once=1)
    assert seen.restored > 300
    assert seen.processed_meanwhile > 2, "a worker that waits has processed one"
