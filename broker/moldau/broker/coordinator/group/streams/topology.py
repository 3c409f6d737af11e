"""The topology of a streams group, as its members send it and record 23 keeps it.

A topology is compared as a whole: members of one epoch must have the same one. The order of
subtopologies, topics and settings does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from moldau.deferred import dataclass
from moldau.protocol.messages import streams_group_heartbeat as requested
from moldau.protocol.schemas import streams_group_log as log


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic that the group needs."""

    name: str
    partitions: int = 0
    """0: the broker decides."""
    replication_factor: int = 0
    """0: the default of the cluster."""
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A connected part of the topology. Each of its tasks reads one partition of each source."""

    subtopology_id: str
    sources: frozenset[str] = frozenset()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: frozenset[str] = frozenset()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[frozenset[str], ...] = ()
    """Names of sources that must have the same number of partitions."""

    @property
    def inputs(self) -> frozenset[str]:
        """All topics that its tasks read."""
        return self.sources.union(each.name for each in self.repartition_sources)

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state to keep copies of."""
        return bool(self.changelogs)


@dataclass(frozen=True, slots=True)
class Topology:
    """All subtopologies of an application, by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]
    by_input: dict[str, str] = field(compare=False, repr=False, default_factory=dict)
    """The subtopology that reads a topic."""

    def topic_names(self) -> frozenset[str]:
        """Return all topics that the group needs: those that it reads, and its changelogs."""
        return frozenset(
            name
            for each in self.subtopologies
            for name in (*each.inputs, *(topic.name for topic in each.changelogs))
        )


def _internal(
    topics: Iterable[log.TopicInfo | requested.TopicInfo],
) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            each.name,
            each.partitions,
            each.replication_factor,
            tuple(sorted((config.key, config.value) for config in each.topic_configs)),
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    )


def _copartitioned(
    subtopology: log.Subtopology | requested.Subtopology,
) -> Iterator[frozenset[str]]:
    sources, internal = subtopology.source_topics, subtopology.repartition_source_topics
    for group in subtopology.copartition_groups:
        names = [sources[each] for each in group.source_topics]
        yield frozenset(
            (*names, *(internal[each].name for each in group.repartition_source_topics))
        )


def topology_of(value: log.StreamsGroupTopologyValue | requested.Topology) -> Topology:
    """Return the topology of a request or a record. Raise IndexError if a copartition group names
    a topic that does not exist."""
    found = [
        Subtopology(
            each.subtopology_id,
            frozenset(each.source_topics),
            _internal(each.state_changelog_topics),
            frozenset(each.repartition_sink_topics),
            _internal(each.repartition_source_topics),
            tuple(sorted(_copartitioned(each), key=sorted)),
        )
        for each in value.subtopologies
    ]
    found.sort(key=lambda each: each.subtopology_id)
    by_input = {name: each.subtopology_id for each in found for name in each.inputs}
    return Topology(value.epoch, tuple(found), by_input)


def topology_record(topology: requested.Topology) -> log.StreamsGroupTopologyValue:
    """Return the value of record 23 for the topology of a request, in the order of the request:
    copartition groups name topics by their place in it."""
    return log.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[_subtopology_record(each) for each in topology.subtopologies],
    )


def _subtopology_record(subtopology: requested.Subtopology) -> log.Subtopology:
    return log.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=_infos(subtopology.state_changelog_topics),
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=_infos(subtopology.repartition_source_topics),
        copartition_groups=[
            log.CopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in subtopology.copartition_groups
        ],
    )


def _infos(topics: Iterable[requested.TopicInfo]) -> list[log.TopicInfo]:
    return [
        log.TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[
                log.TopicConfig(key=config.key, value=config.value) for config in each.topic_configs
            ],
        )
        for each in topics
    ]
