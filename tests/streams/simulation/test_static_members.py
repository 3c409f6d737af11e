"""A rolling restart of static members: no task moves before a session has ended."""

from __future__ import annotations

from tests.streams.simulation.static_members import be_away


def test_no_task_moves_while_static_members_are_away_for_less_than_their_sessions() -> None:
    run = be_away(1, is_short=True)
    assert run.moved == [set(), set()]
    assert run.after == run.before
    assert max(run.stop_s) < 1.0, "nothing is handed over"


def test_tasks_of_a_static_member_move_when_its_session_has_ended() -> None:
    run = be_away(1, is_short=False)
    assert run.moved[0] == run.before[0]
    assert run.moved[1]
    assert all(run.after)
