"""A Streams app as its page shows it: its picture, sub-topologies, members and stores. Pure.

In the picture a topic is one box, also where one sub-topology writes it and another one reads it;
steps that only read or write a topic are drawn as the topic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from moldau.console.apis.streams import Program, Step, Task, Topology
from moldau.console.pages.drawing import Box, Picture, drawn
from moldau.deferred import dataclass
from moldau.errors.amounts import counted

UNKNOWN = "no worker tells"


@dataclass(frozen=True, slots=True)
class Growth:
    """The ends of topics that an app reads or writes, by the sums of their partitions. `skipped`
    says why they could not be read."""

    partitions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class SubTopology:
    """A row of the table of sub-topologies."""

    program: Program
    tasks: int
    running: int
    lag: int | None
    rate: float | None
    ms_each: float | None
    dropped: int


@dataclass(frozen=True, slots=True)
class Member:
    """A worker and what it has."""

    server: str
    tasks: int
    running: int
    lag: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A store and about how much it holds, as far as workers tell."""

    name: str
    rows: int
    size_bytes: int


class AppView:
    """An app at one time. `rates` are those of `counts`."""

    def __init__(
        self,
        topology: Topology,
        tasks: Sequence[Task],
        growth: Growth,
        rates: Mapping[Hashable, float],
    ) -> None:
        self.topology = topology
        self.tasks = tasks
        self.growth = growth
        self._rates = rates

    @property
    def states(self) -> list[tuple[str, int]]:
        """How many tasks are in each state."""
        return sorted(Counter(each.state or UNKNOWN for each in self.tasks).items())

    @property
    def lag(self) -> int | None:
        """How many records the app is behind; None if that is not known."""
        return _lag(self.tasks)

    @property
    def rate(self) -> float | None:
        """How many records the app processes a second."""
        return _total(self._rates.get(("task", each.name)) for each in self.tasks)

    def rate_of(self, task: Task) -> float | None:
        """Return how many records a task processes a second."""
        return self._rates.get(("task", task.name))

    def programs(self) -> list[SubTopology]:
        """Return the rows of the sub-topologies."""
        found = []
        for program in self.topology.programs:
            tasks = [each for each in self.tasks if each.program == program.index]
            processed = sum(each.processed for each in tasks)
            seconds = sum(each.seconds for each in tasks)
            found.append(
                SubTopology(
                    program,
                    len(tasks),
                    sum(each.state == "running" for each in tasks),
                    _lag(tasks),
                    _total(self._rates.get(("task", each.name)) for each in tasks),
                    1000 * seconds / processed if processed else None,
                    sum(each.dropped for each in tasks),
                )
            )
        return found

    def members(self, problems: Mapping[str, str]) -> list[Member]:
        """Return the rows of the workers, as far as they serve queries."""
        by_server = defaultdict(list)
        for each in self.tasks:
            by_server[each.server or UNKNOWN].append(each)
        return [
            Member(
                server,
                len(tasks),
                sum(each.state == "running" for each in tasks),
                _lag(tasks),
                problems.get(server, ""),
            )
            for server, tasks in sorted(by_server.items())
        ]

    def stores(self) -> dict[str, StoreRow]:
        """Return about how much each store holds."""
        rows: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for task in self.tasks:
            for each in task.stores:
                rows[each.name] += each.rows
                sizes[each.name] += each.bytes
        return {name: StoreRow(name, rows[name], sizes[name]) for name in rows}

    # The picture.

    def picture(self) -> Picture:
        """Return the boxes and arrows of all sub-topologies."""
        topics, steps, arrows = set[str](), [], []
        for program in self.topology.programs:
            keys = {each.name: _keys(program, each) for each in program.steps}
            for step in program.steps:
                topics |= {*step.reads, *step.writes}
                if not _is_topic(step):
                    steps.append(self._box(program, step))
                arrows += [
                    (begin, end)
                    for name in (*step.parents, *step.lookups)
                    for begin in keys.get(name, ())
                    for end in keys[step.name]
                ]
        topics |= {*self.topology.reads, *self.topology.writes}
        boxes = [*(self._topic(each) for each in sorted(topics)), *steps]
        return drawn(boxes, arrows)

    def _box(self, program: Program, step: Step) -> Box:
        held = self.stores()
        rows = [held[name].rows for name in step.stores if name in held]
        kind = "state" if step.stores else "step"
        live = f"about {counted(sum(rows), 'row')}" if rows else ""
        under = f"{step.kind} in sub-topology {program.index}"
        return Box(_key(program, step), kind, step.name, under, live)

    def _topic(self, name: str) -> Box:
        count = self.growth.partitions.get(name)
        under = "topic" if count is None else f"topic, {count} partition{'s' * (count != 1)}"
        lag = _total(each.lag for task in self.tasks for each in task.inputs if each.topic == name)
        parts = []
        if (grows := self._rates.get(("end", name))) is not None:
            parts.append(f"{grows:,.0f}/s in")
        if (done := self._rates.get(("done", name))) is not None:
            parts.append(f"{done:,.0f}/s read")
        if lag is not None:
            parts.append(f"lag {lag:,.0f}")
        return Box(f"topic {name}", "topic", name, under, ", ".join(parts))


def counts(tasks: Iterable[Task], growth: Growth) -> dict[Hashable, int]:
    """Return the counts that a page shows as rates: by task, by topic read, by topic written."""
    found: Counter[Hashable] = Counter()
    for task in tasks:
        if task.state is not None:
            found["task", task.name] += task.processed
        for each in task.inputs:
            found["done", each.topic] += each.done
    return {**found, **{("end", name): end for name, end in growth.ends.items()}}


def topics_of(topology: Topology) -> list[str]:
    """Return the topics of the picture."""
    steps = [step for program in topology.programs for step in program.steps]
    found = {name for step in steps for name in (*step.reads, *step.writes)}
    return sorted(found | {*topology.reads, *topology.writes})


def _is_topic(step: Step) -> bool:
    """Whether a step is drawn as its topics."""
    return bool(step.writes) or (bool(step.reads) and not step.parents)


def _keys(program: Program, step: Step) -> list[str]:
    """Return the boxes that stand for a step."""
    if not _is_topic(step):
        return [_key(program, step)]
    return [f"topic {each}" for each in (*step.reads, *step.writes)]


def _key(program: Program, step: Step) -> str:
    return f"step {program.index} {step.name}"


def _lag(tasks: Iterable[Task]) -> int | None:
    found = _total(each.lag for each in tasks)
    return None if found is None else int(found)


def _total(values: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    known = list(_known(values))
    return sum(known) if known else None


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (each for each in values if each is not None)
