"""What was committed becomes this node's: its image, its settings, its replicas, its groups.

Order of one publication: the records change the image; broker settings are laid over anew if theirs
changed; it is noted which log directories are cordoned off; replicas of topics that are gone go;
new and changed partitions are led or given up; logs are told of changed topic settings; then the
offset; then the group coordinator is told which partitions it has to load or to leave, and which
topics changed. All of it within one turn of the event loop, between two requests, so nobody sees
half of it. A whole image (at the start, and after the controller was opened anew) is published as
if every partition had changed.

A replica that cannot be led, because its directory failed, is no reason to stop: the others are
published, and the log says which one was not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.directories import is_reserved
from moldau.broker.controller.image import Image
from moldau.broker.coordinator.group.coordinator import OFFSETS_TOPIC
from moldau.broker.replication.partition import Leadership
from moldau.broker.replication.topic_config import TopicConfig, topic_config
from moldau.broker.server.changes import Changes, RemovedTopic
from moldau.broker.settings import dynamic_layers, dynamic_notices, topic_settings
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.topics import Topic
    from moldau.broker.log.names import TopicPartition
    from moldau.broker.settings import ResourceSettings
    from moldau.config import Settings
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.protocol.declare import MetadataRecord


def with_dynamic(settings: Settings, image: Image, node_id: int) -> Settings:
    """The settings that the node was started with, and over them what was set at run time."""
    own = Resource(ResourceType.BROKER, str(node_id))
    layers = dynamic_layers(image.configs.of(ALL_BROKERS), image.configs.of(own))
    return settings.overlaid(*layers) if any(layers) else settings


class Publisher:
    """One for a node. Until `begin`, only the image follows: no log is loaded yet."""

    def __init__(
        self,
        started_with: Settings,
        on_settings: Callable[[Settings], object],
        on_brokers: Callable[[Image], object],
    ) -> None:
        """`on_settings` gets the broker's settings when dynamic ones changed; `on_brokers` is told
        before partitions follow a broker, which may be new."""
        self.image = Image()
        self.metadata_offset = 0
        self._started_with = started_with
        self._on_settings = on_settings
        self._on_brokers = on_brokers
        self._node: Node | None = None
        self._log: Logger | None = None
        self._pending = Changes()
        self._told: frozenset[str] = frozenset()
        """What was said of dynamic settings that do nothing."""
        self._configured: tuple[ResourceSettings, TopicConfig] | None = None
        """The last settings that were asked for: partitions of a topic come one after the other,
        and topics without settings of their own share them."""

    # The controller's side.

    def on_image(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        """All metadata there is."""
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
        """What was committed after all that came before."""
        changes = self._pending
        changes.replay(self.image, records)
        self.metadata_offset = end_offset
        if self._node is None or self.image.is_in_transaction:
            return
        self._pending = Changes()
        self._apply(self._node, changes)

    # The node's side.

    def begin(self, node: Node, log: Logger) -> None:
        """The logs are loaded: make all of the image this node's, and from now on each change.

        Logs that the cluster does not know are set aside; what is stored for parts of Kafka that
        are not built is told.
        """
        self._node, self._log = node, log
        node.image = self.image
        self._pending = Changes()
        self._apply(node, _everything(self.image))
        node.replicas.set_aside_strays()
        limited = len(self.image.client_quotas.by_entity)
        if limited:
            log.warn("client quotas that are stored have no effect yet", entities=limited)

    def config_of(self, settings: Settings, topic: str) -> TopicConfig:
        """What the topic's settings say, before there is a node to ask."""
        values = self.image.configs.of_topic(topic)
        return topic_config(topic_settings(topic, values, settings, is_stored=True))

    def home_of(self, node_id: int) -> Callable[[TopicPartition], Uuid | None]:
        """In which log directory the node has its replica of a partition, as the metadata say."""

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
        self._tell_groups(node, changes)

    def _tell_groups(self, node: Node, changes: Changes) -> None:
        """Who leads a partition of the offsets' topic coordinates its groups; and groups read
        topics, which came, went or grew."""
        topics = node.image.topics
        gone = [each for each in changes.removed if each.topic_id not in topics.by_id]
        for each in gone:
            if each.name == OFFSETS_TOPIC:
                for index in each.partitions:
                    node.groups.resign(index)
        grown: dict[str, None] = {}
        for (topic_id, index), is_new in changes.partitions.items():
            topic = topics.by_id.get(topic_id)
            if topic is None or index not in topic.partitions:
                continue
            if is_new:
                grown[topic.name] = None
            if topic.name == OFFSETS_TOPIC:
                partition = topic.partitions[index]
                if partition.leader == node.node_id:
                    node.groups.elect(index, partition.leader_epoch)
                else:
                    node.groups.resign(index)
        names = dict.fromkeys(each.name for each in gone)
        if names or grown:
            node.groups.on_topics_changed((names | grown).keys(), names.keys())

    def _update_settings(self, node: Node, changes: Changes) -> bool:
        own = Resource(ResourceType.BROKER, str(node.node_id))
        if ALL_BROKERS not in changes.resources and own not in changes.resources:
            return False
        self._tell_notices(dynamic_notices(*node.image.configs.of_broker(node.node_id)))
        settings = with_dynamic(self._started_with, node.image, node.node_id)
        before, node.settings = node.settings, settings
        if settings.others == before.others and not settings.differences(before):
            return False  # what is told of them may be new all the same
        self._on_settings(settings)
        return True

    def _tell_notices(self, notices: Sequence[str]) -> None:
        """Each once, until it holds no more."""
        told, self._told = self._told, frozenset(notices)
        for notice in notices:
            if notice not in told and self._log is not None:
                self._log.warn(notice)

    def _place(self, node: Node, topic: Topic, index: int, *, is_new: bool) -> None:
        """Lead the partition, follow another leader, or have no part in it."""
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
        if self._configured is None or self._configured[0] is not settings:
            self._configured = settings, topic_config(settings)
        return self._configured[1]

    def _report(self, error: MoldauError, topic: str, index: int) -> None:
        if self._log is not None:
            self._log.failure("a replica cannot be placed", error, topic=topic, partition=index)


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
    """As if all of it were new."""
    changes = Changes()
    for topic, index, _ in image.topics.all_partitions():
        changes.partitions[topic.topic_id, index] = False
    changes.resources.update(dict.fromkeys(image.configs.by_resource))
    return changes
