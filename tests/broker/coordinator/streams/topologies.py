"""Topologies and topics for tests of streams groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moldau.broker.coordinator.group.contract import TopicFacts
from moldau.ids import Uuid
from moldau.protocol.messages import streams_group_heartbeat as messages


class Topics:
    """Satisfies `contract.Cluster`."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self.known: dict[str, TopicFacts] = {}
        for name, count in partitions.items():
            self.put(name.replace("_", "-"), count)

    def put(self, name: str, count: int) -> None:
        topic_id = (len(self.known) + 1).to_bytes(16, "big")
        self.known[name] = TopicFacts(name, topic_id, ((),) * count)
        self.version += 1

    def by_name(self, name: str) -> TopicFacts | None:
        return self.known.get(name)

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        return next((each for each in self.known.values() if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self.known


def internal(
    name: str, partitions: int = 0, configs: Mapping[str, str] | None = None
) -> messages.TopicInfo:
    """A repartition or changelog topic."""
    given = configs or {}
    return messages.TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=[messages.KeyValue(key=key, value=given[key]) for key in given],
    )


def subtopology(
    name: str,
    *sources: str,
    changelogs: Iterable[str] = (),
    sinks: Iterable[str] = (),
    repartitions: Iterable[messages.TopicInfo] = (),
    together: Iterable[tuple[Iterable[int], Iterable[int]]] = (),
) -> messages.Subtopology:
    """A subtopology. `together` has the copartition groups: indexes of sources, and of
    repartition topics."""
    return messages.Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=[internal(each) for each in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartitions),
        copartition_groups=[
            messages.CopartitionGroup(
                source_topics=list(of_sources),
                source_topic_regex=[],
                repartition_source_topics=list(of_repartitions),
            )
            for of_sources, of_repartitions in together
        ],
    )


def topology(*subtopologies: messages.Subtopology, epoch: int = 0) -> messages.Topology:
    return messages.Topology(epoch=epoch, subtopologies=list(subtopologies))


WORD_COUNT = topology(
    subtopology("0", "lines", sinks=["app-count-repartition"]),
    subtopology(
        "1",
        changelogs=["app-count-changelog"],
        repartitions=[internal("app-count-repartition")],
    ),
)
