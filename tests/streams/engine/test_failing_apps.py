"""Random apps with functions that fail are exact, whatever their policies, commits and kills.

An app runs in tasks as a worker or Spark runs it: what a task has done counts with its next commit
or not at all, and a kill goes back to the last one. MOLDAU_FAILING_APPS says how many seeds the
deep test has, MOLDAU_FAILING_FIRST the first one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from moldau.streams.engine.kept_times import times_in
from moldau.streams.engine.sinks import Columns
from moldau.streams.problems import OperatorFailed, RecordFailed
from moldau.streams.state.journal import Journal
from moldau.streams.state.spec import StoreKind
from tests.streams.engine.failing_tasks import Cluster, modelled, outputs, wrong_letters
from tests.streams.failing_apps import SYNC, WAITING, FailingApp, Faults, kinds

SEEDS: Final = int(os.environ.get("MOLDAU_FAILING_APPS", "400"))
FIRST: Final = int(os.environ.get("MOLDAU_FAILING_FIRST", "0"))
PARTS: Final = 4


def play(cluster: Cluster, app: FailingApp, faults: Faults, random: Random) -> None:
    """Run an app to its end. Commits and kills come anywhere; an app that stops is repaired."""
    while not cluster.is_done():
        at = random.randrange(len(cluster.tasks))
        action = random.random()
        try:
            if action < 0.55:
                cluster.step(at, random.choice((1, 2, 5, 100)))
            elif action < 0.7:
                cluster.answer(at)
            elif action < 0.85:
                cluster.now_ms += random.choice((1, 100, 1000))
            elif action < 0.97:
                cluster.commit(at)
            else:
                cluster.kill(at)
        except (RecordFailed, OperatorFailed):
            cluster.stops += 1
            assert cluster.stops < 1000
            app.repair(faults)
            cluster.kill(at)


def ends(app: FailingApp, cluster: Cluster) -> dict[str, Any]:
    """What an app comes to: its outputs, in order, its rows and the stream times."""
    found = outputs(app, cluster.topics)
    for part in app.parts:
        if app.sameness(part.before) == "exact":
            found |= _rows(cluster, f"s{part.number}")
    times: dict[str, int] = {}
    for each in cluster.committed:
        times |= times_in(each.text, each.task({}).network.clocks)
    found["times"] = {
        name: time
        for name, time in times.items()
        if app.has_certain_time(int(name[1:].partition("-")[0]))
    }
    return found


def _rows(cluster: Cluster, store: str) -> dict[str, Any]:
    for each in cluster.committed:
        spec = next((spec for spec in each.program.stores if spec.name == store), None)
        if spec is not None and spec.kind is StoreKind.KEY_VALUE:
            return {store: list(each.backings[store].scan(b"", None))}
    return {}


def wrong(seed: int) -> tuple[str, Any, Any] | None:
    """The first thing that is not as the model says."""
    app = FailingApp(seed)
    model, said, drops = modelled(app)
    faults = Faults(dict(app.faults))
    cluster = Cluster(app.failing(faults), app.records)
    play(cluster, app, faults, Random(f"schedule {seed}"))
    expected, found = ends(app, model), ends(app, cluster)
    for name in expected:
        if expected[name] != found[name]:
            return f"{seed} {name}: {app.text} {drops}", expected[name], found[name]
    letters = wrong_letters(app, said, cluster.letters)
    return None if letters is None else (f"{seed} dead letters: {app.text} {drops}", "", letters)


@pytest.mark.parametrize("decade", range(5))
def test_an_app_with_failures_is_exact(decade: int) -> None:
    found = [wrong(seed) for seed in range(10 * decade, 10 * decade + 10)]

    assert [each for each in found if each is not None] == []


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_many_apps_with_failures_are_exact(part: int) -> None:
    """In parts, which run beside each other."""
    found = (wrong(seed) for seed in range(FIRST + part, FIRST + SEEDS, PARTS))

    assert [each for each in found if each is not None] == []


def test_the_seeds_have_each_kind_of_step_fail() -> None:
    assert {*SYNC, *WAITING} <= kinds([FailingApp(seed) for seed in range(50)]).keys()


def _nothing(*_: Any) -> None:
    """Leave all as it is."""


def _but_one(journal: Journal, mark: int = 0) -> None:
    _roll_back(journal, mark + 1)


_roll_back = Journal.roll_back
MUTANTS: Final[dict[str, tuple[type, str, Callable[..., None]]]] = {
    "attempts are not undone": (Journal, "roll_back", _nothing),
    "the first change of an attempt stays": (Journal, "roll_back", _but_one),
    "outputs stay": (Columns, "drop", _nothing),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_change_that_stays_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, instead = MUTANTS[name]
    monkeypatch.setattr(owner, method, instead)

    assert any(_is_found(seed) for seed in range(100))


def _is_found(seed: int) -> bool:
    try:
        return wrong(seed) is not None
    except (AssertionError, IndexError, KeyError, ValueError):
        return True
