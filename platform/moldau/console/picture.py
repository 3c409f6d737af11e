"""The lists of a cluster as the pages show them: topics, groups and lags, read at some time. Pure.

Invariant: topics are in the order of their names, also while they are still being read, so that the
first pages of a long list are right before its end is known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from moldau.client.group.descriptions import SHARE_TYPE, ListedGroup
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Topic

COMMITTING: Final = frozenset(("", "classic", "consumer", "streams"))
"""The kinds of groups that commit offsets."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in a list. `leaders` has the leader of each partition, -1 if it has none."""

    name: str
    is_internal: bool
    leaders: tuple[int, ...]
    replicas: int
    lagging: int
    """How many partitions have a replica that is not in sync."""

    @classmethod
    def of(cls, topic: Topic) -> TopicRow:
        """Return the row of a topic."""
        first = topic.partitions[0] if topic.partitions else None
        return cls(
            topic.name,
            topic.is_internal,
            tuple(each.leader for each in topic.partitions),
            0 if first is None else len(first.replicas),
            sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
        )

    @property
    def leaderless(self) -> int:
        """How many partitions have no leader."""
        return sum(each < 0 for each in self.leaders)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over all topics, and how many partitions each broker leads."""

    topics: int
    partitions: int
    leaderless: int
    lagging: int
    led: dict[int, int]

    @classmethod
    def of(cls, rows: Iterable[TopicRow]) -> Counts:
        """Count."""
        led: dict[int, int] = {}
        topics = lagging = 0
        for row in rows:
            topics += 1
            lagging += row.lagging
            for each in row.leaders:
                led[each] = led.get(each, 0) + 1
        leaderless = led.pop(-1, 0)
        return cls(topics, leaderless + sum(led.values()), leaderless, lagging, led)


def kinds(groups: Iterable[ListedGroup]) -> tuple[list[str], list[str]]:
    """Return the names of the groups that commit offsets, and those of share groups."""
    committing, sharing = [], []
    for each in groups:
        if each.type in COMMITTING:
            committing.append(each.group_id)
        elif each.type == SHARE_TYPE:
            sharing.append(each.group_id)
    return committing, sharing


@dataclass(slots=True)
class ClusterLists:
    """What one round of reading has found so far, or in all."""

    topics: list[TopicRow] = field(default_factory=list)
    groups: list[ListedGroup] = field(default_factory=list)
    groups_failure: KafkaError | None = None
    """Why the groups could not be listed."""
    lags: dict[str, int] = field(default_factory=dict)
    is_complete: bool = False
    """Whether all topics and groups are in it; lags may come later."""
    at: float = 0.0
    """When it was complete, on the monotonic clock."""
    _counts: Counts | None = None

    def counts(self) -> Counts:
        """Return the sums over the topics."""
        if self._counts is None or not self.is_complete:
            self._counts = Counts.of(self.topics)
        return self._counts

    def put(self, row: TopicRow) -> None:
        """Add a topic, or replace the row of that name. While topics are still being read it would
        come twice, so the reader puts it at the end."""
        if not self.is_complete:
            return
        at = self._place(row.name)
        self.topics[at : at + self._has(at, row.name)] = [row]
        self._counts = None

    def drop(self, topic: str) -> None:
        """Take a topic out."""
        at = self._place(topic)
        del self.topics[at : at + self._has(at, topic)]
        self._counts = None

    def drop_group(self, name: str) -> None:
        """Take a group out."""
        self.groups = [each for each in self.groups if each.group_id != name]
        self.lags.pop(name, None)

    def _place(self, name: str) -> int:
        return bisect_left(self.topics, name, key=lambda row: row.name)

    def _has(self, at: int, name: str) -> bool:
        return at < len(self.topics) and self.topics[at].name == name

    def leaders(self) -> dict[str, tuple[int, ...]]:
        """Return the leaders of the partitions of each topic."""
        return {row.name: row.leaders for row in self.topics}
