"""An app of three members under faults: nothing is lost, and stores are what changelogs make."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.runtime.simulated.report import SimulationFailed
from moldau.streams.worker import restore
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.door import FetchedChunk, TopicFacts
from moldau.streams.worker.exactly_once import ExactlyOnce
from moldau.streams.worker.tasks import WorkerTask
from tests import suites
from tests.memory import give_back
from tests.streams.simulation.scenario import COMMIT_STEPS, ExactlyOnceRun, run_app

PARTS: Final = 6
OVER: Final = 116
"""A seed that found a bug: a member was started when all was over."""
SEEDS: Final = int(os.environ.get("MOLDAU_SEEDS", "30"))


@pytest.mark.parametrize("seed", suites.seeds((OVER, 3, 6), quick=1))
def test_nothing_is_lost_and_stores_are_their_changelogs(seed: int) -> None:
    happened: Counter[str] = Counter()
    run_app(seed, happened)
    give_back()
    assert {"kill", "pause", "isolate", "stop"} <= happened.keys()


def test_everything_counts_once_though_members_die_in_the_middle_of_commits() -> None:
    happened: Counter[str] = Counter()
    run_app(5, happened, ExactlyOnceRun)  # it has all of them
    assert {f"killed at {step}" for step in COMMIT_STEPS} <= happened.keys()


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_everything_counts_once_in_many_worlds(part: int) -> None:
    """In parts, which run beside each other. That members die at each step of a commit is what the
    test of seed 5 holds."""
    for seed in range(part, SEEDS, PARTS):
        run_app(seed, Counter(), ExactlyOnceRun)
        give_back()


@pytest.mark.deep
def test_offsets_outside_the_transaction_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def beside(
        committer: ExactlyOnce, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        found = {where: OffsetAndMetadata(each.offset) for where, each in offsets.items()}
        await committer._consumer.commit(found)

    monkeypatch.setattr(ExactlyOnce, "_send_offsets", beside)
    with pytest.raises(SimulationFailed):
        run_app(4, kind=ExactlyOnceRun)


def test_a_seed_is_one_story() -> None:
    assert run_app(5) == run_app(5)


def test_a_restore_that_forgets_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(task: WorkerTask, fetched: FetchedChunk, topic: TopicFacts) -> int:
        restore.advance(task, fetched.where, fetched.chunk.next_offset, topic)
        return 0

    monkeypatch.setattr(restore, "apply", forgetful)
    with pytest.raises(SimulationFailed):
        run_app(5)
