"""A worker's settings, by Kafka Connect's names. No IO.

`workers.properties` of Kafka Connect works as it is: unknown names and those of other parts
(`producer.`, converters) are kept for whom they concern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.connect.herder.restarts import RestartPolicy
from moldau.connect.storage.shell import TopicSpec
from moldau.connect.task.settings import Config, truth, whole
from moldau.errors import ConfigError

DEFAULTS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "localhost:9092",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "task.isolation": "process",
    "task.shutdown.graceful.timeout.ms": "5000",
    "offset.flush.interval.ms": "60000",
    "offset.flush.timeout.ms": "5000",
    "connector.client.config.override.policy": "All",
    "topic.tracking.enable": "true",
    "topic.tracking.allow.reset": "true",
    "topic.creation.enable": "true",
    "errors.restart.max": "-1",
    "errors.restart.backoff.ms": "1000",
    "errors.restart.backoff.max.ms": "300000",
}
DISTRIBUTED: Final[Mapping[str, str]] = {
    "group.id": "connect-cluster",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "offset.storage.partitions": "25",
    "status.storage.partitions": "5",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
    "rebalance.timeout.ms": "60000",
    "connect.protocol": "sessioned",
}
ISOLATIONS: Final = ("process", "thread")
_RESERVED: Final = frozenset({"cleanup.policy", "partitions", "replication.factor", "topic"})


def complete(given: Config, *, is_distributed: bool) -> dict[str, str]:
    """With defaults; ConfigError for a value that no worker can use."""
    found = {**DEFAULTS, **(DISTRIBUTED if is_distributed else {}), **given}
    if found["task.isolation"] not in ISOLATIONS:
        raise ConfigError(
            "must be process or thread", setting="task.isolation", value=found["task.isolation"]
        )
    for name in (each for each in found if each.endswith((".ms", ".partitions", ".factor"))):
        if name in DEFAULTS or name in DISTRIBUTED:
            whole(found, name, 0)
    for name in ("topic.tracking.enable", "topic.tracking.allow.reset", "topic.creation.enable"):
        truth(found, name, True)
    return found


def restart_policy(worker: Config, connector: Config) -> RestartPolicy:
    """`errors.restart.*` of the connector, else of the worker."""
    both = {**worker, **connector}
    return RestartPolicy(
        whole(both, "errors.restart.max", -1),
        max(1, whole(both, "errors.restart.backoff.ms", 1_000)),
        max(1, whole(both, "errors.restart.backoff.max.ms", 300_000)),
    )


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """Of a distributed worker."""

    config: TopicSpec
    offset: TopicSpec
    status: TopicSpec


def internal_topics(worker: Config) -> InternalTopics:
    """As the settings have them; the config topic has one partition, for its order matters."""
    return InternalTopics(
        _topic(worker, "config", 1),
        _topic(worker, "offset", whole(worker, "offset.storage.partitions", 25)),
        _topic(worker, "status", whole(worker, "status.storage.partitions", 5)),
    )


def _topic(worker: Config, kind: str, partitions: int) -> TopicSpec:
    prefix = f"{kind}.storage"
    own = {
        name.removeprefix(f"{prefix}."): value
        for name, value in worker.items()
        if name.startswith(f"{prefix}.")
    }
    return TopicSpec(
        worker[f"{prefix}.topic"],
        prefix,
        partitions,
        whole(worker, f"{prefix}.replication.factor", -1),
        {name: value for name, value in own.items() if name not in _RESERVED},
    )
