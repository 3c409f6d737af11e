"""The topics that an app makes for itself. Pure: counts in (see `plan.partitions`), topics out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.streams.plan.plan import Plan
from moldau.streams.problems import TopologyError


class BadTopics(TopologyError):
    """The cluster's topics do not fit the app."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the app makes."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


def internal_topics(plan: Plan, counts: Mapping[str, int]) -> list[InternalTopic]:
    """Return the topics that the app makes, with the partition counts that they must have."""
    topics = [
        InternalTopic(each.name, counts[each.name], each.config()) for each in plan.repartitions
    ]
    topics += [
        InternalTopic(name, counts[name], store.changelog_config())
        for name, store in plan.changelogs().items()
    ]
    return topics


def check_existing(wanted: InternalTopic, partitions: int) -> None:
    """Raise BadTopics if the topic exists with another number of partitions."""
    if wanted.partitions != partitions:
        raise BadTopics(
            f"the topic {wanted.name} has {partitions} partitions and the app now needs "
            f"{wanted.partitions}: the number of partitions of an input has changed; stop all "
            "workers, then delete the topic and the local state, or give the input its old number"
        )
