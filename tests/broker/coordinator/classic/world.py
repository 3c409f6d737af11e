"""What a group may ask, with everything in the test's hands: settings, chance, time, log lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random

from moldau.broker.coordinator.group.contract import Cluster, TopicFacts
from moldau.broker.coordinator.group.counts import GroupCounts
from moldau.broker.decision.context import RequestContext
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import ResourceSettings, broker_settings
from moldau.config import Settings, overrides
from moldau.ids import Uuid
from moldau.logging import Logger, Loggers
from moldau.metrics import Registry

BOOT_WALL_MS = 1_700_000_000_000


class NoTopics:
    """A cluster without topics: classic groups do not look."""

    version = 0

    def by_name(self, name: str) -> TopicFacts | None:
        return None

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


class StillClock:
    """For log lines."""

    def wall_ms(self) -> int:
        return BOOT_WALL_MS


class SmallWorld:
    """The World of one shard."""

    def __init__(self, named: Mapping[str, object] | None = None, seed: int = 0) -> None:
        layer = overrides({name: str(value) for name, value in (named or {}).items()})
        self.settings: Settings = broker_settings(standalone_layer("/data"), layer)
        self.cluster: Cluster = NoTopics()
        self.random = Random(seed)
        self.lines: list[str] = []
        self.log: Logger = Loggers(StillClock(), self.lines.append).get("test")
        self.counts = GroupCounts(Registry())

    def group_settings(self, group_id: str) -> ResourceSettings:
        raise AssertionError("a classic group has no settings of its own")

    def wall_ms(self, now_ms: int) -> int:
        return BOOT_WALL_MS + now_ms

    def has_offsets(self, group_id: str) -> bool:
        return False

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return topics

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        return topics
