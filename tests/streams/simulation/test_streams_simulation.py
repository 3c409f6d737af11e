"""An app of three members under faults: nothing is lost, and stores are what changelogs make."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.client.group.streams import StreamsMember
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from moldau.runtime.simulated.report import SimulationFailed
from moldau.streams.plan.plan import Program
from moldau.streams.query.questions import PositionedAnswer, PositionQuestion
from moldau.streams.state.spec import StoreSpec
from moldau.streams.worker import restore
from moldau.streams.worker.committer import CommittedOffset
from moldau.streams.worker.door import FetchedChunk, TopicFacts
from moldau.streams.worker.exactly_once import ExactlyOnce
from moldau.streams.worker.queries import Queries
from moldau.streams.worker.reader import Reader
from moldau.streams.worker.tasks import WorkerTask
from tests import suites
from tests.memory import give_back
from tests.streams.simulation.scenario import (
    COMMIT_STEPS,
    ExactlyOnceRun,
    RackedRun,
    StreamsGroupRun,
    run_app,
)

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


@pytest.mark.parametrize("seed", suites.seeds((5, 3, 6), quick=1))
def test_everything_counts_once_in_a_streams_group_with_standbys(seed: int) -> None:
    happened: Counter[str] = Counter()
    run_app(seed, happened, StreamsGroupRun)
    give_back()
    assert happened["copied"]
    assert happened["stale answers"]


@pytest.mark.parametrize("seed", suites.seeds((4, 7), quick=1))
def test_standbys_are_in_the_other_zone_after_moves(seed: int) -> None:
    run_app(seed, Counter(), RackedRun)
    give_back()


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_everything_counts_once_in_many_streams_groups(part: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        run_app(seed, happened, RackedRun if seed % 2 else StreamsGroupRun)
        give_back()
    assert happened["leave"]


@pytest.mark.deep
def test_an_answer_below_its_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Queries._read_positioned

    def careless(
        queries: Queries, spec: StoreSpec, program: Program, asked: PositionQuestion, where: Any
    ) -> PositionedAnswer:
        return read(queries, spec, program, replace(asked, at_least={}), where)

    monkeypatch.setattr(Queries, "_read_positioned", careless)
    with pytest.raises(SimulationFailed):
        run_app(5, kind=StreamsGroupRun)


def test_a_standby_that_reads_past_the_last_stable_offset_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Reader.__init__

    def careless(
        reader: Reader, given: Mapping[str, str], name: str, *more: Any, **of: Any
    ) -> None:
        level = {"isolation.level": "read_uncommitted"} if name.endswith("-standby") else {}
        original(reader, {**given, **level}, name, *more, **of)

    monkeypatch.setattr(Reader, "__init__", careless)
    with pytest.raises(SimulationFailed):
        run_app(9, kind=StreamsGroupRun)


@pytest.mark.deep
def test_a_copy_that_is_taken_for_active_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def early(member: StreamsMember, answer: StreamsGroupHeartbeatResponse) -> bool:
        if answer.standby_tasks:
            answer.active_tasks = [*(answer.active_tasks or ()), *answer.standby_tasks]
            answer.standby_tasks = []
        return original(member, answer)

    original = StreamsMember._take_target
    monkeypatch.setattr(StreamsMember, "_take_target", early)
    with pytest.raises(SimulationFailed):
        run_app(5, kind=StreamsGroupRun)


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
