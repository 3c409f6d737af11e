"""Random apps with functions that fail are exact, whatever their policies, commits and kills.

An app runs in tasks as a worker or Spark runs it: what a task has done counts with its next commit
or not at all, and a kill goes back to the last one. MOLDAU_FAILING_APPS says how many seeds the
deep test has, MOLDAU_FAILING_FIRST the first one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import pytest

from moldau.streams import Streams
from moldau.streams.engine.batches import Chunk, Headers, Outputs
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.kept_times import times_in
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.sinks import Columns
from moldau.streams.engine.task import Task
from moldau.streams.plan.plan import Program
from moldau.streams.problems import OperatorFailed, RecordFailed
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.journal import Journal
from moldau.streams.state.spec import StoreKind
from moldau.streams.testing.driver import await_all
from tests.streams.failing_apps import (
    SYNC,
    WAITING,
    Drops,
    FailingApp,
    Faults,
    Model,
    kinds,
    origin,
)

SEEDS: Final = int(os.environ.get("MOLDAU_FAILING_APPS", "400"))
FIRST: Final = int(os.environ.get("MOLDAU_FAILING_FIRST", "0"))
PARTS: Final = 4

Rows = list[tuple[bytes | None, bytes | None, int]]


class Committed:
    """What a task has committed: its rows, positions and times."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.backings = {store.name: MemoryBacking() for store in program.stores}
        self.positions: dict[str, int] = {}
        self.text = ""

    def task(self, topics: dict[str, Rows]) -> Task:
        """A task that goes on from here, with all records behind its positions."""
        task = Task(self.program, 0, self.backings, metadata=[self.text])
        for topic in self.program.inputs:
            task.set_at_end(topic, True)
            self.give(task, topic, topics.get(topic, []), self.positions.get(topic, 0))
        return task

    def give(self, task: Task, topic: str, rows: Rows, first: int) -> None:
        some = rows[first:]
        if some:
            keys, values, times = (list(column) for column in zip(*some, strict=True))
            task.add(topic, Chunk(range(first, len(rows)), times, keys, values, len(rows)))


class Cluster:
    """All tasks of an app, and its topics."""

    def __init__(self, app: Streams, records: list[tuple[str, int, int]]) -> None:
        plan = app.plan()
        self.topics: dict[str, Rows] = {
            "in": [(key.encode(), str(value).encode(), time) for key, value, time in records]
        }
        self.committed = [Committed(program) for program in plan.programs]
        self.tasks = [each.task(self.topics) for each in self.committed]
        self.held: list[list[Outputs]] = [[] for _ in self.tasks]
        self.calls: list[list[AsyncCall]] = [[] for _ in self.tasks]
        self.letters: list[tuple[bytes | None, bytes | None, Headers]] = []
        self.now_ms = 0
        self.stops = 0

    def step(self, at: int, limit: int) -> int:
        """Run some records of a task, or what it waits for. Return how many are done."""
        task = self.tasks[at]
        done = task.process(self.now_ms, limit)
        task.punctuate(self.now_ms)
        self.held[at] += task.take_outputs()
        self.calls[at] += task.take_calls()
        return done

    def answer(self, at: int) -> bool:
        """Finish the calls of a task. Return whether there were any."""
        calls, self.calls[at] = self.calls[at], []
        await_all(calls)
        return bool(calls)

    def commit(self, at: int) -> bool:
        """Commit a task, if it may be."""
        task, committed = self.tasks[at], self.committed[at]
        if task.is_unfinished():
            return False
        try:
            task.flush()
        except EmitsPending:
            return False
        made = self.held[at] + task.take_outputs()
        self.held[at] = []
        committed.positions |= task.positions()
        committed.text = task.metadata()
        for outputs in made:
            self._write(outputs)
        return True

    def _write(self, outputs: Outputs) -> None:
        rows = self.topics.setdefault(outputs.topic, [])
        first = len(rows)
        rows += zip(outputs.keys, outputs.values, outputs.timestamps, strict=True)
        if outputs.topic == "dead":
            self.letters += zip(outputs.keys, outputs.values, outputs.headers, strict=True)
        for task, committed in zip(self.tasks, self.committed, strict=True):
            if outputs.topic in committed.program.inputs:
                committed.give(task, outputs.topic, rows, first)

    def kill(self, at: int) -> None:
        """Start a task again from its last commit."""
        self.calls[at] += self.tasks[at].take_calls()
        self.answer(at)  # they end for nothing
        self.held[at] = []
        self.tasks[at] = self.committed[at].task(self.topics)

    def is_done(self) -> bool:
        return all(
            each.positions.get(topic, 0) == len(self.topics.get(topic, []))
            for each in self.committed
            for topic in each.program.inputs
        )


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


def play_through(cluster: Cluster) -> None:
    """Run an app to its end with one commit of each task at a time."""
    while not cluster.is_done():
        for at in range(len(cluster.tasks)):
            while cluster.step(at, 1000) or cluster.answer(at):
                pass
            cluster.commit(at)


def outputs(app: FailingApp, topics: Mapping[str, Rows]) -> dict[str, Any]:
    """What came out of each part, as far as the model says it."""
    found: dict[str, Any] = {}
    for part in app.parts:
        topic = f"out-{part.number}"
        rows = topics.get(topic, [])
        match app.sameness(part.number):
            case "exact":
                found[topic] = rows
            case "bag":
                found[topic] = Counter(rows)
            case "last":
                found[topic] = {key: value for key, value, _ in rows}
    return found


def ends(app: FailingApp, cluster: Cluster) -> dict[str, Any]:
    """What an app comes to: its outputs, in order, its rows and the stream times."""
    found = outputs(app, cluster.topics)
    for part in app.parts:
        if app.sameness(part.before) == "exact":
            found |= _rows(cluster, f"s{part.number}")
    times: dict[str, int] = {}
    for each in cluster.committed:
        times |= times_in(each.text, each.task({}).network.clocks)
    found["times"] = times
    return found


def _rows(cluster: Cluster, store: str) -> dict[str, Any]:
    for each in cluster.committed:
        spec = next((spec for spec in each.program.stores if spec.name == store), None)
        if spec is not None and spec.kind is StoreKind.KEY_VALUE:
            return {store: list(each.backings[store].scan(b"", None))}
    return {}


def modelled(app: FailingApp) -> tuple[Cluster, Model, Drops]:
    """The app as it must be: what came out, what was filtered out, and where."""

    def through(built: Streams) -> Cluster:
        cluster = Cluster(built, app.records)
        play_through(cluster)
        return cluster

    drops, said = app.drops(through), Model({})
    return through(app.modelled(drops, said)), said, drops


Letter = tuple[bytes | None, bytes | None, Headers]


def wrong_letters(app: FailingApp, said: Model, letters: Sequence[Letter]) -> Any:
    """What is wrong with the dead letters; None if they are those of the model, once each."""
    expected = {number for part, number in said.hits if app.policy(part).dead_letter is not None}
    found = {origin(int(value or b"")) for _, value, _ in letters}
    counted: Counter[Any] = Counter()
    for key, value, headers in letters:
        facts = dict(headers)
        names = ("topic", "partition", "offset", "operator")
        place = tuple(facts.get(f"moldau.error.{name}") for name in names)
        # An emitted row has no place; rows of a time may be equal.
        counted[place if place[0] is not None else (place, key, value)] += 1
    twice = [place for place, count in counted.items() if count > 1]
    return None if expected == found and not twice else (expected, found, twice)


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
