"""Blocking work of a driver runs several pieces at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams.spark import beginning
from moldau.streams.spark.beginning import together
from moldau.streams.spark.delivery import TaskBatch
from moldau.streams.spark.versions import Version

_WAIT_S = 10.0


def test_eight_pieces_run_at_a_time_and_give_their_results_in_order() -> None:
    meeting = Barrier(8)

    def met(number: int) -> int:
        """Returns when eight are here: one after the other they would never be."""
        meeting.wait(_WAIT_S)
        return number

    assert together([partial(met, each) for each in range(16)], "test") == list(range(16))
    assert together([], "test") == []


def test_after_a_failure_no_other_piece_begins() -> None:
    begun: list[int] = []
    meeting = Barrier(8)

    def failing(number: int) -> None:
        begun.append(number)
        meeting.wait(_WAIT_S)
        raise ValueError(f"piece {number}")

    works: list[Callable[[], None]] = [partial(failing, each) for each in range(100)]
    with pytest.raises(ValueError, match="piece 0"):
        together(works, "test")
    assert sorted(begun) == list(range(8))


def test_a_driver_takes_over_eight_tasks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = Barrier(8)
    taken: list[int] = []

    def met(producer: object, admin: object, batch: TaskBatch, offsets: object) -> dict[str, Any]:
        meeting.wait(_WAIT_S)
        taken.append(batch.partition)
        return {}

    monkeypatch.setattr(beginning, "_recorded", lambda *_: {})
    monkeypatch.setattr(beginning, "record_beginning", met)
    monkeypatch.setattr(beginning, "take_task", met)
    begun = {partition: Version() for partition in range(8)}
    program = SimpleNamespace(index=0, stores=(), inputs=())
    kept: Any = SimpleNamespace(
        id="1",
        run=0,
        take_run=lambda _: None,
        last=lambda *_: (3, None),
        versions_before=lambda *_: begun,
    )
    layout: Any = SimpleNamespace(plan=SimpleNamespace(app="app", programs=[program]))
    settings: Any = SimpleNamespace(is_exactly_once=True, of=lambda _: {})
    admin: Any = None

    beginning.take_over(admin, kept, layout, settings, {0: begun})
    assert sorted(taken) == list(range(8))
    assert beginning.take_up(admin, kept, layout, settings) == {0: begun}
    assert sorted(taken) == sorted([*range(8), *range(8)])
