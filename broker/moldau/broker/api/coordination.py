"""The node's topics, settings and clock, as its coordinators need them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from moldau.broker.api.rights.guard import Client
from moldau.broker.controller.configs import Resource, ResourceType
from moldau.broker.controller.levels import SHARE_VERSION, TRANSACTION_VERSION
from moldau.broker.coordinator.group.contract import TopicFacts
from moldau.broker.coordinator.group.counts import GroupCounts
from moldau.broker.settings import group_settings
from moldau.broker.settings.meaning import without_effect
from moldau.broker.share.counts import ShareCounts
from moldau.broker.share.settings import ShareSettings, share_settings
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from moldau.runtime.process import short_turns

if TYPE_CHECKING:
    from random import Random

    from moldau.broker.api.node import Node
    from moldau.broker.api.share_dead_letters import DeadLetters
    from moldau.broker.api.share_persister import SharePersister
    from moldau.broker.controller.topics import Topic
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.metrics import Registry
    from moldau.runtime import Clock

T = TypeVar("T")


class GroupsNode:
    """The node as the group coordinator and share partitions use it. Satisfies
    `coordinator.group.coordinator.NodeServices` and `share.partition.ShareServices`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.cluster = TopicsOfNode(node)
        self.counts = GroupCounts(node.metrics)
        self.share_counts = ShareCounts()
        self._group_settings: dict[str, tuple[Mapping[str, str], ResourceSettings]] = {}
        self._share_settings: dict[str, ShareSettings] = {}
        self._known: tuple[object, tuple[int, int], object] | None = None
        """The settings that are in `_share_settings`: when these are others, it is made anew."""

    @property
    def settings(self) -> Settings:
        return self._node.settings

    @property
    def random(self) -> Random:
        return self._node.runtime.random

    @property
    def clock(self) -> Clock:
        return self._node.runtime.clock

    @property
    def log(self) -> Logger:
        return self._node.log

    @property
    def metrics(self) -> Registry:
        return self._node.metrics

    @property
    def purgatory(self) -> Purgatory:
        return self._node.replicas.purgatory

    @property
    def persister(self) -> SharePersister:
        return self._node.share_persister

    @property
    def dead_letters(self) -> DeadLetters:
        return self._node.dead_letters

    def in_thread(self, work: Callable[[], T], then: Callable[[T | KafkaError], None], /) -> None:
        """Run work in a thread, one after the other, and give its result or error to `then`; also
        if there is no memory for it."""
        self._node.runtime.spawn(self._run_in_thread(work, then), name="share-batches")

    async def _run_in_thread(
        self, work: Callable[[], T], then: Callable[[T | KafkaError], None]
    ) -> None:
        def run() -> T:
            with short_turns():
                return work()

        found: T | KafkaError
        try:
            found = await self._node.large_lookups.result(self._node.runtime, run)
        except KafkaError as error:
            found = without_frames(error)
        except MemoryError as error:
            self._node.log.failure("a batch of records does not fit into the memory", error)
            found = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "there is no memory for the batch")
        then(found)

    def describable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        """Return those of the topics that the client of a request may describe."""
        client = Client(self._node.authorizer, context, self._node.image)
        return client.allowed(AclResource.TOPIC, AclOperation.DESCRIBE, topics)

    def creatable(self, context: RequestContext, topics: Collection[str]) -> Collection[str]:
        """Return those of the topics that the client of a request may create: all with CREATE on
        the cluster, else those with CREATE on the topic."""
        client = Client(self._node.authorizer, context, self._node.image)
        if client.may_on_cluster(AclOperation.CREATE):
            return topics
        return client.allowed(AclResource.TOPIC, AclOperation.CREATE, topics)

    def group_settings(self, group_id: str) -> ResourceSettings:
        """Return the group's settings. Cached until the group's or the broker's settings change."""
        node = self._node
        values = node.image.configs.of(Resource(ResourceType.GROUP, group_id))
        name = group_id if values else ""
        known = self._group_settings.get(name)
        if known is not None and known[0] is values and known[1].broker is node.settings:
            return known[1]
        found = group_settings(name, values, node.settings, is_stored=True)
        if len(self._group_settings) > 2 * len(node.image.configs.by_resource) + 1:
            self._group_settings.clear()  # drops groups without settings of their own
        self._group_settings[name] = values, found
        for row in found.own.table:
            if found.is_given(row) and (why := without_effect(row.name)) is not None:
                node.log.warn("a setting of a group", group=group_id, setting=f"{row.name} {why}")
        return found

    def share_settings(self, group_id: str) -> ShareSettings:
        """Return the group's settings for share partitions. Made anew when any settings change."""
        configs = self._node.image.configs
        level = self._node.image.features.levels.get(SHARE_VERSION, 0)
        now = configs, (configs.changes, level), self._node.settings
        known = self._known
        if known is None or known[1] != now[1] or known[0] is not now[0] or known[2] is not now[2]:
            self._known = now
            self._share_settings.clear()
        found = self._share_settings.get(group_id)
        if found is None:
            found = share_settings(self.group_settings(group_id), level)
            self._share_settings[group_id] = found
        return found


class TransactionsNode:
    """The node as transactions use it. Satisfies
    `coordinator.transaction.services.TransactionServices`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def settings(self) -> Settings:
        return self._node.settings

    @property
    def transaction_version(self) -> int:
        return self._node.image.features.levels.get(TRANSACTION_VERSION, 0)

    def wall_ms(self, now_ms: int) -> int:
        clock = self._node.runtime.clock
        return clock.wall_ms() - clock.monotonic_ns() // 1_000_000 + now_ms

    def new_producer_id(self) -> int:
        return self._node.producer_ids.take_now()


class ShareStatesNode:
    """The node as share states use it. Satisfies
    `coordinator.share.services.ShareStateServices`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def settings(self) -> Settings:
        return self._node.settings

    def wall_ms(self, now_ms: int) -> int:
        clock = self._node.runtime.clock
        return clock.wall_ms() - clock.monotonic_ns() // 1_000_000 + now_ms

    def partition_count(self, topic_id: Uuid) -> int:
        topic = self._node.image.topics.by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    @property
    def knows_topics(self) -> bool:
        return self._node.image.topics.by_name(SHARE_LOG.topic) is not None


class TopicsOfNode:
    """The image's topics. Satisfies `coordinator.group.contract.Cluster`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[Uuid, tuple[int, int, TopicFacts]] = {}

    @property
    def version(self) -> int:
        return self._node.metadata_offset

    def names(self) -> Iterable[str]:
        return self._node.image.topics.names()

    def by_name(self, name: str) -> TopicFacts | None:
        topic = self._node.image.topics.by_name(name)
        return None if topic is None else self._facts(topic)

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        topic = self._node.image.topics.by_id.get(topic_id)
        return None if topic is None else self._facts(topic)

    def _facts(self, topic: Topic) -> TopicFacts:
        """Return the topic's name, id and racks for assignors. Racks change when replicas move or
        brokers restart elsewhere, so the result is cached only for one version of the metadata."""
        image = self._node.image
        known = self._known.get(topic.topic_id)
        version, count = self._node.metadata_offset, len(topic.partitions)
        if known is not None and known[0] == version and known[1] == count:
            return known[2]
        brokers = image.brokers.by_id
        racks = []
        for index in range(count):
            found = (brokers.get(each) for each in topic.partitions[index].replicas)
            racks.append(tuple(each.rack for each in found if each is not None and each.rack))
        facts = TopicFacts(topic.name, topic.topic_id, tuple(racks))
        if len(self._known) > 2 * len(image.topics.by_id) + 1:
            self._known.clear()
        self._known[topic.topic_id] = version, count, facts
        return facts
