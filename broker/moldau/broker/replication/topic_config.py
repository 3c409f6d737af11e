"""The settings of a topic that its replicas use: in the log, and in the leader."""

from __future__ import annotations

from dataclasses import field, replace

from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.log_settings import log_config
from moldau.broker.replication.quota import NOTHING, ThrottledPartitions, throttled_on
from moldau.broker.settings import ResourceSettings, node, topic
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of one topic for its replicas. Immutable; a change makes another one."""

    log: LogConfig = field(default_factory=LogConfig)
    min_insync_replicas: int = 1
    sends_throttled: ThrottledPartitions = NOTHING
    fetches_throttled: ThrottledPartitions = NOTHING


def topic_config(settings: ResourceSettings, *, is_restoring: bool = False) -> TopicConfig:
    """Return the current settings of the topic for its replicas."""
    node_id = settings.broker[node.node_id]
    return TopicConfig(
        replace(log_config(settings), is_restoring=is_restoring),
        settings[topic.min_insync_replicas],
        throttled_on(node_id, settings[topic.leader_replication_throttled_replicas]),
        throttled_on(node_id, settings[topic.follower_replication_throttled_replicas]),
    )
