"""The layout of an app on a cluster: its topics, partitions and tasks. One pure step.

A worker, the test driver and `explain` all run it, so that what a cluster would refuse is refused
everywhere, with the same text. In: the plan, and the partition counts of topics that exist. Out:
one value with the programs, the count of every topic, and the topics to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.streams.plan.partitions import assumed_counts, partition_counts, task_count
from moldau.streams.plan.patterns import matches, resolved
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import InternalTopic, topology_topic
from moldau.streams.plan.topology import CONFIGS
from moldau.streams.problems import UnfitTopic


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
