"""The partitions of keys in an app: what its sources declare, and what follows from that.

Records meet by key in joins and lookups, so a key must lie in the partition of the same number in
all topics of a group (`Program.copartitioned`). The partitioning of a group is the one that its
sources declare with `partitioner=`, else Kafka's own, murmur2. Repartition topics of the app follow
it, so that records with a new key, and the references of foreign-key joins, find the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from moldau.deferred import dataclass
from moldau.streams.plan import operations as op
from moldau.streams.plan.partitioners import MURMUR2, Partitioning
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import RepartitionTopic
from moldau.streams.problems import CoPartitionError


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the keys of a store lie. Unless it `is_known`, rows may also lie elsewhere: a source
    does not declare its partitioner, or a function of the app chooses the partitions."""

    partitioning: Partitioning = MURMUR2
    is_known: bool = True


def partitioned(
    app: str, programs: Iterable[Program], topics: Sequence[RepartitionTopic]
) -> tuple[tuple[Program, ...], tuple[RepartitionTopic, ...]]:
    """Return the programs and topics with the partitioning of each repartition topic.

    Raise CoPartitionError if inputs that meet by key are written in different ways."""
    found: dict[str, Partitioning] = {}
    programs = tuple(programs)
    own = {topic.name for topic in topics}
    for program in programs:
        declared = declared_by(program)
        for group in program.copartitioned:
            ways = {name: declared.get(name, MURMUR2) for name in sorted(group - own)}
            if len(set(ways.values())) > 1:
                raise _mixed(app, ways)
            found.update({name: way for way in ways.values() for name in group & own})
    after = tuple(replace(each, partitioning=found.get(each.name, MURMUR2)) for each in topics)
    return tuple(_with_sinks(each, found) for each in programs), after


def _mixed(app: str, ways: Mapping[str, Partitioning]) -> CoPartitionError:
    described = ", ".join(f"{name}={way.name}" for name, way in ways.items())
    return CoPartitionError(
        f"app={app}: records of these topics meet by key, so the same partitioner must have "
        f"written them: {described}; say on each source how it is written, partitioner=..., or "
        'repartition one of the streams: .repartition("NAME")'
    )


def declared_by(program: Program) -> dict[str, Partitioning]:
    """Return the partitionings that the sources of a program declare, by topic."""
    return {
        topic: step.operation.partitioning
        for step in program.steps
        if isinstance(step.operation, op.Source | op.TableSource)
        and step.operation.partitioning is not None
        for topic in step.operation.topics
    }


def _with_sinks(program: Program, found: Mapping[str, Partitioning]) -> Program:
    """Set the partitioning of sinks to repartition topics, where it is not the producer's own."""
    steps = []
    for step in program.steps:
        operation = step.operation
        if isinstance(operation, op.Sink) and operation.topic is not None:
            way = found.get(operation.topic, MURMUR2)
            if way != MURMUR2:
                step = replace(step, operation=replace(operation, partitioning=way))
        steps.append(step)
    return replace(program, steps=tuple(steps))


def placements(plan: Plan) -> dict[str, Placement]:
    """Return where the keys of each store lie, by the name of the store."""
    own = {topic.name: topic for topic in plan.repartitions}
    found = {}
    for program in plan.programs:
        declared = declared_by(program)
        for store, topics in program.feeding:
            ways = {
                declared.get(name, MURMUR2) if name not in own else own[name].partitioning
                for name in topics
            }
            is_known = all(
                name in declared or (name in own and not own[name].is_free) for name in topics
            )
            found[store] = Placement(
                min(ways, key=lambda each: each.name, default=MURMUR2), is_known
            )
    return found


def placed_inputs(plan: Plan) -> dict[str, Partitioning]:
    """Return the inputs whose keys must lie where a partitioning puts them, because records of them
    meet others by key or are kept by key. The app's own topics are not among them."""
    own = {topic.name for topic in plan.repartitions}
    found = {}
    for program in plan.programs:
        declared = declared_by(program)
        topics = {name for _, names in program.feeding for name in names}
        topics.update(*program.copartitioned)
        found.update({name: declared.get(name, MURMUR2) for name in sorted(topics - own)})
    return found
