"""Streams groups in seeded stories, and planted faults that the stories must find."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.broker.coordinator.group.streams import heartbeat
from moldau.broker.coordinator.group.streams.mixed_topologies import Topologies
from moldau.broker.coordinator.group.streams.positions import TaskPositions
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
from tests.broker.coordinator.streams.story import Story

SEEDS: Final = range(int(os.environ.get("MOLDAU_STREAMS_SEEDS", "50")))
HUNT: Final = range(200)


@pytest.mark.parametrize("first", range(0, len(SEEDS), 10))
def test_no_story_breaks_a_promise(first: int) -> None:
    moves = 0
    for seed in SEEDS[first : first + 10]:
        story = Story(seed)
        try:
            story.run()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        moves += story.warm_moves
    assert moves, "no task has moved to a warm copy"


Plant = Callable[[pytest.MonkeyPatch], None]


def taken_for_warm_too_early(patch: pytest.MonkeyPatch) -> None:
    """The lag of a copy is what its own member believes to be the end when it last sent one."""
    patch.setattr(TaskPositions, "lag", lambda positions, member_id, task, now_ms: 0)
    patch.setattr(
        TaskPositions,
        "lags_of",
        lambda positions, member_id, now_ms: dict.fromkeys(positions.reported(member_id)[0], 0),
    )


def two_topologies_in_an_epoch(patch: pytest.MonkeyPatch) -> None:
    def with_any(known: Any, older: Any, epochs: Any, given: Any) -> Topologies:
        return Topologies(given if given.epoch >= known.epoch else known, older)

    patch.setattr(heartbeat, "with_topology", with_any)


def a_task_in_two_places(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StreamsGroupState, "is_free", lambda *_: True)


def changed_subtopologies_beside_each_other(patch: pytest.MonkeyPatch) -> None:
    """New tasks begin while the old topology still reads their partitions."""
    patch.setattr(Topologies, "is_changed", lambda *_: False)


@pytest.mark.parametrize(
    "plant",
    [
        taken_for_warm_too_early,
        two_topologies_in_an_epoch,
        a_task_in_two_places,
        changed_subtopologies_beside_each_other,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def is_found(seed: int) -> bool:
        try:
            Story(seed).run()
        except AssertionError:
            return True
        return False

    assert any(map(is_found, HUNT))
