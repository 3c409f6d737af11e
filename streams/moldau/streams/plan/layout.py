"""The layout of an app on a cluster: its topics, partitions and tasks. One pure step.

A worker, the test driver and `explain` all run it, so that what a cluster would refuse is refused
everywhere, with the same text. In: the plan, and the partition counts of topics that exist. Out:
one value with the programs, the count of every topic, and the topics to make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.deferred import dataclass
from moldau.streams.plan.patterns import PREFIX, matches, resolved
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import InternalTopic, topology_topic
from moldau.streams.plan.topology import CONFIGS
from moldau.streams.problems import CoPartitionError, MissingTopics, UnfitTopic


def partition_counts(plan: Plan, known: Mapping[str, int]) -> dict[str, int]:
    """Return the count of each input, repartition and changelog topic.

    `known` has the counts of the topics that exist. A repartition topic gets as many partitions as
    the largest topic from which records reach it, and as many as the others of its group. Raise
    MissingTopics if an input is missing, CoPartitionError if the counts do not fit.
    """
    missing = [topic for topic in plan.source_topics() if topic not in known]
    if missing:
        raise MissingTopics(plan.app, "input", missing)
    counts = {topic: known[topic] for topic in plan.source_topics()}
    wanted = {topic.name: topic.partitions for topic in plan.repartitions}
    counts.update({name: count for name, count in wanted.items() if count is not None})
    counts.update(_derived(plan, counts, [name for name, count in wanted.items() if count is None]))
    for program in plan.programs:
        _fit(plan, program, counts, wanted)
    for program in plan.programs:
        most = task_count(program, counts)
        for store in program.stores:
            topic = store.changelog(plan.app)
            if topic is not None and topic not in counts:
                counts[topic] = most
    return counts


def task_count(program: Program, counts: Mapping[str, int]) -> int:
    """Return how many tasks a program has: as many as its largest input has partitions."""
    return max((counts[topic] for topic in program.inputs), default=1)


def assumed_counts(plan: Plan, given: Mapping[str, int], otherwise: int = 1) -> dict[str, int]:
    """Return `given` with a count for each other input: one that fits those that it meets by key,
    or `otherwise`. For checks without a cluster."""
    counts = dict(given)
    fixed = {
        topic.name: topic.partitions for topic in plan.repartitions if topic.partitions is not None
    }
    for topic in plan.source_topics():
        if topic in counts or topic.startswith(PREFIX):
            continue
        groups = (group for each in plan.programs for group in each.copartitioned)
        met = next((group for group in groups if topic in group), frozenset())
        known = [given.get(name) or fixed[name] for name in met if name in given or name in fixed]
        counts[topic] = max(known, default=otherwise)
    return counts


def _derived(plan: Plan, counts: Mapping[str, int], topics: Iterable[str]) -> dict[str, int]:
    """Return the counts of these repartition topics: the largest of the counted topics from which
    records reach each, through any number of the others. They may feed each other in circles."""
    sources = {
        topic: {
            name for program in plan.programs if topic in program.outputs for name in program.inputs
        }
        for topic in topics
    }
    found = {}
    for topic in sources:
        reached, left = {topic}, [topic]
        while left:
            new = sources.get(left.pop(), set()) - reached
            reached |= new
            left += new
        found[topic] = max((counts[name] for name in reached if name in counts), default=1)
    return found


def _fit(
    plan: Plan, program: Program, counts: dict[str, int], wanted: Mapping[str, int | None]
) -> None:
    """Give the topics of a group one count; free repartition topics take that of the others. Raise
    CoPartitionError if the fixed counts differ."""
    for group in program.copartitioned:
        fixed = {name: counts[name] for name in sorted(group) if wanted.get(name, 1) is not None}
        if len(set(fixed.values())) > 1:
            described = ", ".join(f"{name}={count}" for name, count in fixed.items())
            raise CoPartitionError(
                f"app={plan.app}: records of these topics meet by key, so they need the same "
                f"number of partitions: {described}; repartition one of the streams: "
                '.repartition(name="...", partitions=N)'
            )
        count = max(fixed.values() or (counts[name] for name in group), default=1)
        for name in group:
            counts[name] = count


@dataclass(frozen=True, slots=True)
class Layout:
    """An app on the topics of a cluster. `plan` has topics in the place of patterns.

    `counts` has the partition count of each input and internal topic; `internal` are the topics
    that the app makes, including those that exist already; `outputs` the topics that it writes to,
    as far as they are known before it runs.
    """

    plan: Plan
    counts: Mapping[str, int]
    internal: tuple[InternalTopic, ...]
    outputs: tuple[str, ...]

    def tasks(self, program: Program) -> int:
        """Return how many tasks a program has, one for each partition."""
        return task_count(program, self.counts)

    def topics(self, program: Program, partition: int) -> tuple[str, ...]:
        """Return the inputs of a task: inputs of a program may have different partition counts."""
        return tuple(each for each in program.inputs if partition < self.counts[each])

    def inputs(self) -> tuple[str, ...]:
        """Return the topics that the app's group subscribes to."""
        return tuple(sorted({topic for program in self.plan.programs for topic in program.inputs}))


def laid_out(plan: Plan, topics: Mapping[str, int]) -> Layout:
    """Return the app on a cluster with these topics, given as name -> partition count.

    Raise MissingTopics for an input that is not among them, CoPartitionError for inputs that meet
    by key with different counts, UnfitTopic for an internal topic that exists with another count
    than the app needs, TopologyError for a topic that two sources would read.
    """
    plan = resolved(plan, matches(plan, topics))
    counts = partition_counts(plan, topics)
    internal = [
        InternalTopic(each.name, counts[each.name], each.config()) for each in plan.repartitions
    ]
    internal += [
        InternalTopic(name, counts[name], store.changelog_config())
        for name, store in plan.changelogs().items()
    ]
    internal.append(InternalTopic(topology_topic(plan.app), 1, CONFIGS))
    for each in internal:
        if topics.get(each.name, each.partitions) != each.partitions:
            raise UnfitTopic(each.name, topics[each.name], each.partitions)
    own = {each.name for each in internal}
    return Layout(plan, counts, tuple(internal), tuple(sorted(plan.outputs() - own)))


def assumed_layout(plan: Plan, given: Mapping[str, int], otherwise: int = 1) -> Layout:
    """Return the layout on topics of which only some are known. See `assumed_counts`."""
    return laid_out(plan, assumed_counts(plan, given, otherwise))
