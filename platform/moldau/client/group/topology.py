"""The topology of an application, as the coordinator of its streams group has to know it. No IO.

A topology has an epoch in its group. Members with another topology need another epoch, and the
group takes over the topology of the highest one. Two topologies are compared by their digests, and
with that of the group by outlines: a description of the group has no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple

from moldau.deferred import dataclass
from moldau.protocol.messages import streams_group_heartbeat as messages


class TopicOutline(NamedTuple):
    """A topic that the application makes for itself, without its size."""

    name: str
    configs: tuple[tuple[str, str], ...]


class SubtopologyOutline(NamedTuple):
    """What the description of a group says of a subtopology, its topics in order."""

    name: str
    sources: tuple[str, ...]
    repartition_sources: tuple[TopicOutline, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[TopicOutline, ...]


class GroupTopology(NamedTuple):
    """The topology that a group has now."""

    epoch: int
    outline: tuple[SubtopologyOutline, ...]


class TopicDescription(NamedTuple):
    """A topic that the application makes for itself. 0 partitions: as many as tasks."""

    name: str
    partitions: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SubtopologyDescription:
    """A connected part of a topology: the unit of tasks. Topics of a group in `copartitioned`,
    which are inputs, need the same number of partitions."""

    name: str
    sources: tuple[str, ...] = ()
    repartition_sources: tuple[TopicDescription, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    changelogs: tuple[TopicDescription, ...] = ()
    copartitioned: tuple[frozenset[str], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that its tasks read."""
        return (*self.sources, *(each.name for each in self.repartition_sources))

    @property
    def outline(self) -> SubtopologyOutline:
        """What a description of its group says of it."""
        return SubtopologyOutline(
            self.name,
            tuple(sorted(self.sources)),
            _outlines(self.repartition_sources),
            tuple(sorted(self.repartition_sinks)),
            _outlines(self.changelogs),
        )

    @property
    def repartition_counts(self) -> list[tuple[str, int]]:
        """The partition counts of its repartition topics."""
        return sorted((each.name, each.partitions) for each in self.repartition_sources)

    @property
    def copartition_names(self) -> list[list[str]]:
        """The groups of `copartitioned`, in order."""
        return sorted(sorted(group) for group in self.copartitioned)


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """What the coordinator has to know of an application. Members of one epoch have the same."""

    subtopologies: tuple[SubtopologyDescription, ...]
    epoch: int = 0

    def inputs_of(self, subtopology: str) -> tuple[str, ...]:
        """Return the inputs of a subtopology; none if the topology does not have it."""
        for each in self.subtopologies:
            if each.name == subtopology:
                return each.inputs
        return ()

    @property
    def outline(self) -> tuple[SubtopologyOutline, ...]:
        """What a description of its group says of it."""
        return tuple(sorted(each.outline for each in self.subtopologies))

    @property
    def digest(self) -> str:
        """A digest of all but the epoch: the same for equal topologies, in any process."""
        whole = [
            (each.outline, each.repartition_counts, each.copartition_names)
            for each in sorted(self.subtopologies, key=lambda each: each.name)
        ]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def _outlines(topics: Iterable[TopicDescription]) -> tuple[TopicOutline, ...]:
    return tuple(sorted(TopicOutline(each.name, tuple(sorted(each.configs))) for each in topics))


def topology_message(topology: TopologyDescription) -> messages.Topology:
    """Return a topology as a heartbeat has it."""
    return messages.Topology(
        epoch=topology.epoch,
        subtopologies=[
            messages.Subtopology(
                subtopology_id=each.name,
                source_topics=list(each.sources),
                source_topic_regex=[],
                state_changelog_topics=[_topic_info(topic) for topic in each.changelogs],
                repartition_sink_topics=list(each.repartition_sinks),
                repartition_source_topics=[
                    _topic_info(topic) for topic in each.repartition_sources
                ],
                copartition_groups=[_copartition(each, group) for group in each.copartitioned],
            )
            for each in topology.subtopologies
        ],
    )


def _topic_info(topic: TopicDescription) -> messages.TopicInfo:
    return messages.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=0,
        topic_configs=[messages.KeyValue(key=key, value=value) for key, value in topic.configs],
    )


def _copartition(
    subtopology: SubtopologyDescription, group: frozenset[str]
) -> messages.CopartitionGroup:
    internal = [each.name for each in subtopology.repartition_sources]
    return messages.CopartitionGroup(
        source_topics=[at for at, name in enumerate(subtopology.sources) if name in group],
        source_topic_regex=[],
        repartition_source_topics=[at for at, name in enumerate(internal) if name in group],
    )
