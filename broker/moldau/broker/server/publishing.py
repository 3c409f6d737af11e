"""Applying committed metadata to this node: its image, its settings, its replicas, its
coordinators.

The order of one publication:
1. The records change the image.
2. Broker settings are overlaid again if they changed.
3. The addresses of brokers are updated.
4. The cordoned log directories are noted.
5. Replicas of deleted topics are removed.
6. New and changed partitions are led, followed or given up.
7. Logs get changed topic settings.
8. The metadata offset is set.
9. The coordinators load or unload shards, and learn which topics changed. They load none before
   this run of the node is registered.

All of it happens within one turn of the event loop, between two requests, so no request sees half
of it. A whole image (at the start, and after the controller was reopened) is published as if every
partition had changed.

If a replica cannot be led, because its directory failed, the others are still published, and the
failure is logged.

The set of things that committed metadata records change, so that only these are applied again.

Invariant: it contains everything that differs between the images before and after the records. It
may also contain things that do not differ; that does no harm. The records of a metadata transaction
count when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.directories import is_reserved
from moldau.broker.controller.image import Image
from moldau.broker.replication.partition import Leadership
from moldau.broker.replication.topic_config import TopicConfig, topic_config
from moldau.broker.settings import dynamic_layers, dynamic_notices, topic_settings
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.restore_topic import RESTORING
from moldau.protocol.schemas.metadata_log import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.topics import Topic
    from moldau.broker.log.names import TopicPartition
    from moldau.broker.replication.partition import Partition
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings
    from moldau.logging import Logger


class RemovedTopic(NamedTuple):
    """A deleted topic, and the partitions that it had."""

    name: str
    topic_id: Uuid
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Changes:
    """The changed things, each once, in the order of their first record."""

    partitions: dict[tuple[Uuid, int], bool] = field(default_factory=dict)
    """Maps each changed partition to whether it is new: created by these records."""
    removed: list[RemovedTopic] = field(default_factory=list)
    resources: dict[Resource, None] = field(default_factory=dict)

    def replay(self, image: Image, records: Iterable[MetadataRecord]) -> None:
        """Apply the records to `image`, and note what they change."""
        for record in records:
            self._note(image, record)
            image.replay(record)

    def _note(self, image: Image, record: MetadataRecord) -> None:
        match record:
            case PartitionRecord():
                self.partitions[record.topic_id, record.partition_id] = True
            case PartitionChangeRecord():
                self.partitions.setdefault((record.topic_id, record.partition_id), False)
            case ConfigRecord():
                self.resources[Resource(record.resource_type, record.resource_name)] = None
            case RemoveTopicRecord():
                topic = image.topics.by_id.get(record.topic_id)
                if topic is not None:
                    partitions = tuple(topic.partitions)
                    self.removed.append(RemovedTopic(topic.name, topic.topic_id, partitions))


def with_dynamic(settings: Settings, image: Image, node_id: int) -> Settings:
    """Return the node's settings overlaid with its dynamic settings."""
    own = Resource(ResourceType.BROKER, str(node_id))
    layers = dynamic_layers(image.configs.of(ALL_BROKERS), image.configs.of(own))
    return settings.overlaid(*layers) if any(layers) else settings


class Publisher:
    """Applies committed metadata to one node. Until `begin` only the image follows the metadata: no
    log is loaded yet."""

    def __init__(
        self,
        started_with: Settings,
        on_settings: Callable[[Settings], object],
        on_brokers: Callable[[Image], object],
    ) -> None:
        """`on_settings` receives the broker's settings when dynamic ones changed. `on_brokers` is
        called before partitions follow a broker, because that broker may be new."""
        self.image = Image()
        self.metadata_offset = 0
        self._started_with = started_with
        self._on_settings = on_settings
        self._on_brokers = on_brokers
        self._node: Node | None = None
        self._log: Logger | None = None
        self._pending = Changes()
        self._told: frozenset[str] = frozenset()
        """The notices already logged about dynamic settings without effect."""
        self._configured: tuple[ResourceSettings, TopicConfig] | None = None
        """The last topic settings that were requested. Partitions of a topic come one after the
        other, and topics without settings of their own share them."""

    # Called by the controller.

    def on_image(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        """Replace the image by these records, which are the whole metadata."""
        before, self.image = self.image, Image()
        self.image.replay_all(records)
        self.metadata_offset = end_offset
        node = self._node
        if node is None:
            return
        changes = _everything(self.image)
        changes.removed += [
            RemovedTopic(topic.name, topic.topic_id, tuple(topic.partitions))
            for topic in before.topics.by_id.values()
            if topic.topic_id not in self.image.topics.by_id
        ]
        changes.resources.update(dict.fromkeys(before.configs.by_resource))
        node.image = self.image
        self._apply(node, changes)

    def on_records(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        """Publish records that were committed after all earlier ones."""
        changes = self._pending
        changes.replay(self.image, records)
        self.metadata_offset = end_offset
        if self._node is None or self.image.is_in_transaction:
            return
        self._pending = Changes()
        self._apply(self._node, changes)

    # Called by the node.

    def on_made(self, partition: Partition) -> None:
        """Report to the coordinator of its topic a partition that leads or follows only now,
        because its log had to be made."""
        node = self._node
        if node is None or not partition.is_leader or not _is_registered(node):
            return
        coordinator = node.coordinators.of_topic(partition.topic)
        if coordinator is not None:
            coordinator.elect(partition.index, partition.leader_epoch)

    def begin(self, node: Node, log: Logger) -> None:
        """Apply the whole image to this node, and from now on each change. The logs are loaded.

        Set aside logs that the cluster does not know. Warn about stored quotas without effect.
        """
        self._node, self._log = node, log
        node.image = self.image
        node.replicas.on_made = self.on_made
        self._pending = Changes()
        self._apply(node, _everything(self.image))
        node.replicas.set_aside_strays()
        idle = self.image.client_quotas.without_effect()
        if idle:
            log.warn("client quotas of kinds that are not enforced are stored", entities=idle)

    def config_of(self, settings: Settings, topic: str) -> TopicConfig:
        """Return a topic's config, before there is a node."""
        values = self.image.configs.of_topic(topic)
        return topic_config(
            topic_settings(topic, values, settings, is_stored=True),
            is_restoring=RESTORING in values,
        )

    def home_of(self, node_id: int) -> Callable[[TopicPartition], Uuid | None]:
        """Return a function that returns the log directory of this node's replica of a partition,
        from the metadata; None if the metadata has no such replica."""

        def home(place: TopicPartition) -> Uuid | None:
            topic = self.image.topics.by_name(place.topic)
            partition = None if topic is None else topic.partitions.get(place.partition)
            return None if partition is None else partition.directory_of(node_id)

        return home

    # Applying.

    def _apply(self, node: Node, changes: Changes) -> None:
        are_defaults_new = self._update_settings(node, changes)
        self._on_brokers(node.image)
        broker = node.image.brokers.by_id.get(node.node_id)
        node.directories.cordoned = frozenset((broker and broker.cordoned_log_dirs) or ())
        for gone in changes.removed:
            self._remove(node, gone)
        for (topic_id, index), is_new in changes.partitions.items():
            topic = node.image.topics.by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._place(node, topic, index, is_new=is_new)
        self._configure(node, changes, every_topic=are_defaults_new)
        node.metadata_offset = self.metadata_offset
        self._notify_coordinators(node, changes)

    def _notify_coordinators(self, node: Node, changes: Changes) -> None:
        """Report to each coordinator the changed partitions of its topic, whose leader coordinates
        their keys, and to all the topics that were created, deleted or extended."""
        topics, coordinators = node.image.topics, node.coordinators
        gone = [each for each in changes.removed if each.topic_id not in topics.by_id]
        for each in gone:
            coordinator = coordinators.of_topic(each.name)
            if coordinator is not None:
                for index in each.partitions:
                    coordinator.resign(index)
        grown: dict[str, None] = {}
        for (topic_id, index), is_new in changes.partitions.items():
            topic = topics.by_id.get(topic_id)
            if topic is None or index not in topic.partitions:
                continue
            if is_new:
                grown[topic.name] = None
            coordinator = coordinators.of_topic(topic.name)
            if coordinator is not None:
                partition = topic.partitions[index]
                if partition.leader == node.node_id and _is_registered(node):
                    coordinator.elect(index, partition.leader_epoch)
                else:
                    coordinator.resign(index)
        names = dict.fromkeys(each.name for each in gone)
        if names or grown:
            coordinators.on_topics_changed((names | grown).keys(), names.keys())

    def _update_settings(self, node: Node, changes: Changes) -> bool:
        own = Resource(ResourceType.BROKER, str(node.node_id))
        if ALL_BROKERS not in changes.resources and own not in changes.resources:
            return False
        self._log_notices(dynamic_notices(*node.image.configs.of_broker(node.node_id)))
        settings = with_dynamic(self._started_with, node.image, node.node_id)
        before, node.settings = node.settings, settings
        if settings.others == before.others and not settings.differences(before):
            return False  # only their notices may have changed
        self._on_settings(settings)
        return True

    def _log_notices(self, notices: Sequence[str]) -> None:
        """Log each notice once, until it no longer applies."""
        told, self._told = self._told, frozenset(notices)
        for notice in notices:
            if notice not in told and self._log is not None:
                self._log.warn(notice)

    def _place(self, node: Node, topic: Topic, index: int, *, is_new: bool) -> None:
        """Lead the partition, follow another leader, or remove the replica."""
        partition = topic.partitions[index]
        replicas = node.replicas
        try:
            if node.node_id not in partition.replicas:
                replicas.remove(topic.name, index)
                return
            leadership = _leadership(topic, index, node.node_id, is_new=is_new)
            if partition.leader == node.node_id:
                replicas.lead(leadership, self._config(node, topic.name))
            else:
                replicas.follow(leadership, self._config(node, topic.name))
        except MoldauError as error:
            self._report(error, topic.name, index)

    def _remove(self, node: Node, gone: RemovedTopic) -> None:
        if gone.topic_id in node.image.topics.by_id:
            return  # the transaction that removed it was aborted
        for index in gone.partitions:
            try:
                node.replicas.remove(gone.name, index)
            except MoldauError as error:
                self._report(error, gone.name, index)

    def _configure(self, node: Node, changes: Changes, *, every_topic: bool) -> None:
        if every_topic:
            names = list(node.image.topics.names())
        else:
            names = [each.name for each in changes.resources if each[0] == ResourceType.TOPIC]
        for name in names:
            if node.image.topics.by_name(name) is not None:
                node.replicas.configure(name, self._config(node, name))

    def _config(self, node: Node, topic: str) -> TopicConfig:
        settings = node.topic_settings(topic)
        is_restoring = RESTORING in node.image.configs.of_topic(topic)
        known = self._configured
        if known is None or known[0] is not settings or known[1].log.is_restoring != is_restoring:
            known = settings, topic_config(settings, is_restoring=is_restoring)
            self._configured = known
        return known[1]

    def _report(self, error: MoldauError, topic: str, index: int) -> None:
        if self._log is not None:
            self._log.failure("a replica cannot be placed", error, topic=topic, partition=index)


def _is_registered(node: Node) -> bool:
    """Whether the image has this run of the node. Before that, what it leads was given to an
    earlier run: it may have lost the end of its logs, so nothing may be appended in those epochs.

    1. It leads in epoch 0, and another replica has records that its own disk has lost.
    2. It starts, and its transaction coordinator writes a marker in epoch 0.
    3. It registers and follows in epoch 1. Epoch 0 seems to end behind the marker in both logs,
       so nothing is truncated, and they differ for ever.
    """
    known = node.image.brokers.by_id.get(node.node_id)
    return known is not None and known.broker_epoch == node.broker_epoch


def _leadership(topic: Topic, index: int, node_id: int, *, is_new: bool) -> Leadership:
    partition = topic.partitions[index]
    directory_id = partition.directory_of(node_id)
    return Leadership(
        topic=topic.name,
        index=index,
        topic_id=topic.topic_id,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        replicas=partition.replicas,
        directory_id=None if is_reserved(directory_id) else directory_id,
        is_new=is_new,
        leader=partition.leader,
        partition_epoch=partition.partition_epoch,
    )


def _everything(image: Image) -> Changes:
    """Return changes with every partition and resource of the image, no partition as new."""
    changes = Changes()
    for topic, index, _ in image.topics.all_partitions():
        changes.partitions[topic.topic_id, index] = False
    changes.resources.update(dict.fromkeys(image.configs.by_resource))
    return changes
