"""An app of three members under faults: nothing is lost, and stores are what changelogs make."""

from __future__ import annotations

from collections import Counter

import pytest

from moldau.runtime.simulated.report import SimulationFailed
from moldau.streams.worker import restore
from moldau.streams.worker.door import Fetched, TopicFacts
from moldau.streams.worker.tasks import WorkerTask
from tests.streams.simulation.scenario import run_app


def test_nothing_is_lost_and_stores_are_their_changelogs() -> None:
    happened: Counter[str] = Counter()
    for seed in (3, 6, 116):  # 116: a member was started when all was over
        run_app(seed, happened)
    assert {"kill", "pause", "isolate", "stop"} <= happened.keys()


def test_a_seed_is_one_story() -> None:
    assert run_app(5) == run_app(5)


def test_a_restore_that_forgets_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(task: WorkerTask, fetched: Fetched, topic: TopicFacts) -> int:
        restore.advance(task, fetched.where, fetched.chunk.next_offset, topic)
        return 0

    monkeypatch.setattr(restore, "apply", forgetful)
    with pytest.raises(SimulationFailed):
        run_app(5)
