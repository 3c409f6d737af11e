"""The configured topology: a topology with the topics of the cluster.

It decides in this order, each step with the results of the one before:

1. All source topics exist. Else the group waits for them.
2. A repartition topic has the partitions that the application asks for. Otherwise it has as many as
   the largest topic that the subtopologies which write to it read. Where repartition topics depend
   on each other, it is the largest of those with a known number.
3. The topics of a copartition group have the same number of partitions. Repartition topics without
   a number of their own take that of the others, or the largest if there are no others.
4. A changelog has a partition for each task of its subtopology.
5. Internal topics that exist must have these numbers of partitions. Those that do not exist are to
   be created.

The result is pure: the same topology and topics give the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final

from moldau.broker.coordinator.group.contract import Cluster
from moldau.broker.coordinator.group.streams.topology import InternalTopic, Subtopology, Topology
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

_CLUSTER_DEFAULT: Final = -1


class Status(Enum):
    """What a response says about the group, with its number in the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6
    """Only in responses since version 1: older clients do not know it."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why a group is not ready."""

    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The topology as it can run, or the obstacle."""

    epoch: int
    task_counts: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each subtopology has. Empty if that is not known."""
    stateful: frozenset[str] = frozenset()
    """The subtopologies with state."""
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)
    """The internal topics to create, with the decided number of partitions."""
    obstacle: Obstacle | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.obstacle is None

    def creatable(self) -> tuple[CreatableTopic, ...]:
        """Return the missing internal topics as a request that creates them has them."""
        return tuple(_creatable(self.missing[name]) for name in sorted(self.missing))


class _NotReady(Exception):
    """Ends the configuration with an obstacle."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.obstacle = Obstacle(status, detail)


def configure(topology: Topology, cluster: Cluster) -> ConfiguredTopology:
    """Return the topology with the topics of the cluster. Raise STREAMS_INVALID_TOPOLOGY if no
    topics could make it run."""
    try:
        counts = _partition_counts(topology, cluster)
        missing = _missing(topology, counts, cluster)
    except _NotReady as found:
        return ConfiguredTopology(topology.epoch, obstacle=found.obstacle)
    obstacle = None
    if missing:
        names = ", ".join(sorted(missing))
        detail = f"Internal topics are missing: {names}"
        obstacle = Obstacle(Status.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(
        topology.epoch,
        {each.subtopology_id: _task_count(each, counts) for each in topology.subtopologies},
        frozenset(each.subtopology_id for each in topology.subtopologies if each.is_stateful),
        missing,
        obstacle,
    )


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _CLUSTER_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )


def _partition_counts(topology: Topology, cluster: Cluster) -> dict[str, int]:
    """Return the number of partitions of each topic that the group needs."""
    subtopologies = topology.subtopologies
    counts = _source_counts(subtopologies, cluster)
    counts.update(_repartition_counts(subtopologies, counts))
    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            _copartition(subtopologies, group, counts)
    for subtopology in subtopologies:
        count = _task_count(subtopology, counts)
        for topic in subtopology.changelogs:
            if topic.name not in subtopology.inputs:
                counts[topic.name] = count
    return counts


def _source_counts(subtopologies: Iterable[Subtopology], cluster: Cluster) -> dict[str, int]:
    counts, missing = {}, set()
    for name in {name for each in subtopologies for name in each.sources}:
        topic = cluster.by_name(name)
        if topic is None:
            missing.add(name)
        else:
            counts[name] = topic.partition_count
    if missing:
        text = f"Source topics {', '.join(sorted(missing))} are missing."
        raise _NotReady(Status.MISSING_SOURCE_TOPICS, text)
    return counts


def _repartition_counts(
    subtopologies: tuple[Subtopology, ...], sources: Mapping[str, int]
) -> dict[str, int]:
    """Decide the number of partitions of repartition topics. One may depend on another, so the
    undecided ones are tried again as long as any of them gets a number."""
    found: dict[str, int] = {}
    undecided: dict[str, None] = {}
    for subtopology in subtopologies:
        for topic in subtopology.repartition_sources:
            if topic.partitions:
                found[topic.name] = topic.partitions
            else:
                undecided[topic.name] = None
    sinks = {name for each in subtopologies for name in each.repartition_sinks}
    if not undecided.keys() <= sinks:
        raise _invalid("a repartition topic is read, and no subtopology writes to it")
    while undecided:
        sizes = {name: _input_counts(subtopologies, name, sources, found) for name in undecided}
        decided = {name: max(each) for name, each in sizes.items() if each and all(each)}
        if not decided:
            # The two topics of a foreign-key join depend on each other: what is known must do.
            known = [name for name, each in sizes.items() if any(each)]
            if not known:
                raise _invalid("the sizes of repartition topics depend on each other alone")
            decided = {known[0]: max(sizes[known[0]])}
        found.update(decided)
        for name in decided:
            del undecided[name]
    return found


def _input_counts(
    subtopologies: tuple[Subtopology, ...],
    name: str,
    sources: Mapping[str, int],
    decided: Mapping[str, int],
) -> list[int]:
    """Return the numbers of partitions of what the subtopologies read that write to the topic: 0
    for one that is not decided yet."""
    inputs = [each.inputs for each in subtopologies if name in each.repartition_sinks]
    return [sources.get(each, decided.get(each, 0)) for names in inputs for each in names - {name}]


def _copartition(
    subtopologies: tuple[Subtopology, ...], group: frozenset[str], counts: dict[str, int]
) -> None:
    """Give the topics of a copartition group one number of partitions."""
    internal = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_sources
        if topic.name in group
    }
    fixed = {name for name, partitions in internal.items() if partitions}
    given = sorted(group - internal.keys()) or sorted(fixed)
    sizes = {name: counts[name] for name in given}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sizes.items())
        text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _NotReady(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
    count = next(iter(sizes.values()), 0) or max((counts[each] for each in group), default=0)
    for name in sorted(internal):
        if name in fixed and counts[name] != count:
            text = (
                f"Number of partitions [{counts[name]}] of repartition topic [{name}] doesn't "
                f"match number of partitions [{count}] of the source topic."
            )
            raise _NotReady(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
        counts[name] = count


def _task_count(subtopology: Subtopology, counts: Mapping[str, int]) -> int:
    if not subtopology.inputs:
        raise _invalid("a subtopology reads no topic", subtopology=subtopology.subtopology_id)
    return max(counts[name] for name in subtopology.inputs)


def _missing(
    topology: Topology, counts: Mapping[str, int], cluster: Cluster
) -> dict[str, InternalTopic]:
    """Return the internal topics that do not exist. One that exists must have the right number of
    partitions."""
    found: dict[str, InternalTopic] = {}
    for subtopology in topology.subtopologies:
        for topic in (*subtopology.repartition_sources, *subtopology.changelogs):
            count = counts[topic.name]
            existing = cluster.by_name(topic.name)
            if existing is None:
                factor, configs = topic.replication_factor, topic.configs
                found[topic.name] = InternalTopic(topic.name, count, factor, configs)
            elif existing.partition_count != count and topic.name not in subtopology.sources:
                text = (
                    f"Existing topic {topic.name} has different number of partitions: "
                    f"expected {count}, found {existing.partition_count}"
                )
                raise _NotReady(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
    return found


def _invalid(reason: str, **context: object) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason, **context)
