"""The partition counts of the app's own topics, and the check that inputs of joins fit together."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.streams.plan.plan import Plan, Program
from moldau.streams.problems import CoPartitionError, TopologyError


def partition_counts(plan: Plan, known: Mapping[str, int]) -> dict[str, int]:
    """Return the count of each input, repartition and changelog topic.

    `known` has the counts of the topics that exist. A repartition topic gets as many partitions as
    the largest input of the programs that write to it, and as many as the others of its group.
    Raise TopologyError if an input is missing or the counts do not fit.
    """
    missing = [topic for topic in plan.source_topics() if topic not in known]
    if missing:
        raise TopologyError(
            f"app={plan.app}: input topic {', '.join(missing)} does not exist; create it first"
        )
    counts = {topic: known[topic] for topic in plan.source_topics()}
    wanted = {topic.name: topic.partitions for topic in plan.repartitions}
    counts.update({name: count for name, count in wanted.items() if count is not None})
    open_topics = [name for name, count in wanted.items() if count is None]
    while open_topics:
        left = [name for name in open_topics if not _settle(plan, name, counts)]
        if len(left) == len(open_topics):
            raise TopologyError(
                f"app={plan.app}: repartition topics {', '.join(left)} feed each other; "
                "give one of them partitions=N"
            )
        open_topics = left
    for program in plan.programs:
        _fit(plan, program, counts, wanted)
    for program in plan.programs:
        most = max((counts[topic] for topic in program.inputs), default=1)
        for store in program.stores:
            topic = store.changelog(plan.app)
            if topic is not None and topic not in counts:
                counts[topic] = most
    return counts


def _settle(plan: Plan, topic: str, counts: dict[str, int]) -> bool:
    """Set the count of `topic` if all inputs of the programs that write to it are counted. Return
    whether it is set."""
    writers = [program for program in plan.programs if topic in program.outputs]
    inputs = {name for program in writers for name in program.inputs}
    if any(name not in counts for name in inputs):
        return False
    counts[topic] = max(counts[name] for name in inputs)
    return True


def _fit(
    plan: Plan, program: Program, counts: dict[str, int], wanted: Mapping[str, int | None]
) -> None:
    """Give the topics of a group one count; free repartition topics take that of the others. Raise
    CoPartitionError if the fixed counts differ."""
    for group in program.copartitioned:
        fixed = {name: counts[name] for name in sorted(group) if wanted.get(name, 1) is not None}
        if len(set(fixed.values())) > 1:
            told = ", ".join(f"{name}={count}" for name, count in fixed.items())
            raise CoPartitionError(
                f"app={plan.app}: records of these topics meet by key, so they need the same "
                f"number of partitions: {told}; repartition one of the streams: "
                '.repartition(name="...", partitions=N)'
            )
        count = max(fixed.values() or (counts[name] for name in group))
        for name in group:
            counts[name] = count
