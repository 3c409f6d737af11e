"""The tasks of an app with functions that fail, and what its model says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.streams import Streams
from moldau.streams.engine.batches import Chunk, Headers, Outputs
from moldau.streams.engine.contract import EmitsPending
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.engine.task import Task
from moldau.streams.plan.plan import Program
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.testing.driver import await_all
from tests.streams.failing_apps import Drops, FailingApp, Model, origin

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
