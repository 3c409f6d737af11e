"""Games of a streams group's members with the broker's group, and mutants that they find."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.group.streams import StreamsMember
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from tests import suites
from tests.client.group.streams_games import StreamsGame

STEPS = 400


def play(seed: int) -> None:
    game = StreamsGame(seed)
    game.play(STEPS)
    game.settle()


@pytest.mark.parametrize("seed", suites.seeds(range(60), quick=15))
def test_no_task_is_active_twice_and_all_come_to_run(seed: int) -> None:
    play(seed)


def found_within(count: int) -> bool:
    for seed in range(count):
        try:
            play(seed)
        except AssertionError:
            return True
    return False


def test_a_copy_that_is_taken_for_active_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = StreamsMember._take_target

    def early(member: StreamsMember, answer: StreamsGroupHeartbeatResponse) -> bool:
        if answer.standby_tasks:
            answer.active_tasks = [*(answer.active_tasks or ()), *answer.standby_tasks]
            answer.standby_tasks = []
        return original(member, answer)

    monkeypatch.setattr(StreamsMember, "_take_target", early)
    assert found_within(5)


def test_what_is_reported_as_given_up_before_it_is_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ahead(member: StreamsMember) -> Any:
        tasks = member._target
        return tuple(tuple(sorted(each)) for each in (tasks.active, tasks.standby, tasks.warmup))

    monkeypatch.setattr(StreamsMember, "_owned_report", ahead)
    monkeypatch.setattr(StreamsMember, "_is_changing", False)
    assert found_within(20)
