"""What a consumer group may ask, with everything in the test's hands: topics, settings, time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from random import Random
from typing import Any

from moldau.broker.coordinator.group.contract import TopicFacts
from moldau.broker.coordinator.group.counts import GroupCounts
from moldau.broker.decision.context import RequestContext
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import ResourceSettings, broker_settings, group_settings
from moldau.config import Settings, overrides
from moldau.ids import Uuid
from moldau.logging import Logger, Loggers
from moldau.metrics import Registry

BOOT_WALL_MS = 1_700_000_000_000

SETTINGS: Mapping[str, object] = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.max.size": 5,
}
"""Of the brokers that the scripts are about: ours and Apache Kafka."""


class Topics:
    """The topics of a cluster; each change is a new version."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self.version = 1
        self._by_name: dict[str, TopicFacts] = {}
        for name, size in (sizes or {}).items():
            self.put(name, size)

    def put(self, name: str, size: int, racks: tuple[str, ...] = ()) -> TopicFacts:
        """Create the topic, or give it that many partitions."""
        known = self._by_name.get(name)
        # Ids in no order of the names, and never the same twice.
        fresh = sha256(f"{name}/{self.version}".encode()).digest()[:16]
        of_partitions: Any = (racks,) * size
        topic = TopicFacts(name, known.topic_id if known else fresh, of_partitions)
        self._by_name[name] = topic
        self.version += 1
        return topic

    def adopt(self, name: str, topic_id: Uuid, size: int) -> None:
        """A topic that another cluster made."""
        no_racks: Any = ((),) * size
        self._by_name[name] = TopicFacts(name, topic_id, no_racks)
        self.version += 1

    def remove(self, name: str) -> None:
        """The topic is deleted."""
        del self._by_name[name]
        self.version += 1

    def by_name(self, name: str) -> TopicFacts | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        return next((each for each in self._by_name.values() if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return tuple(self._by_name)


class _StillClock:
    """For log lines."""

    def wall_ms(self) -> int:
        return BOOT_WALL_MS


class World:
    """Satisfies `contract.GroupServices`."""

    def __init__(
        self,
        sizes: Mapping[str, int] | None = None,
        named: Mapping[str, object] | None = None,
        seed: int = 0,
    ) -> None:
        chosen = {**SETTINGS, **(named or {})}
        layer = overrides({name: str(value) for name, value in chosen.items()})
        self.settings: Settings = broker_settings(standalone_layer("/data"), layer)
        self.cluster = Topics(sizes)
        self.random = Random(seed)
        self.of_group: dict[str, str] = {}
        self.lines: list[str] = []
        self.log: Logger = Loggers(_StillClock(), self.lines.append).get("test")
        self.counts = GroupCounts(Registry())
        self.hidden: set[str] = set()
        """Topics that no client may describe."""

    def group_settings(self, group_id: str) -> ResourceSettings:
        return group_settings(group_id, self.of_group, self.settings)

    def wall_ms(self, now_ms: int) -> int:
        return BOOT_WALL_MS + now_ms

    def has_offsets(self, group_id: str) -> bool:
        return False

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return [each for each in topics if each not in self.hidden]

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return topics
