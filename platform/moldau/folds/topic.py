"""The topic of a fold: made if it does not exist, else checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.client import Admin, KafkaError, NewTopic
from moldau.client.admin.configs import Resource, ResourceType
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode

REPLICAS: Final = 3
_POLICY: Final = "cleanup.policy"


@dataclass(frozen=True, slots=True)
class FoldTopic:
    """A compacted topic, and what errors say of it."""

    name: str
    title: str
    """What errors call it, such as "the topic of schemas"."""
    partitions: int = 1
    replicas: int | None = None
    """Of a new topic; None means three, or one a broker; -1 the cluster's default."""
    configs: Mapping[str, str] = field(default_factory=dict)
    is_ordered: bool = False
    """Whether the order of all records counts: it must have one partition."""
    has_transactions: bool = False
    """Whether other processes write to it in transactions, which `catch_up` waits for."""
    is_made: bool = True
    """Whether a topic that does not exist is made."""
    setting: str | None = None
    """The prefix of the settings that define it, for errors."""

    def facts(self, name: str, **more: object) -> dict[str, object]:
        """Return the context of an error: the topic, and the setting of this name."""
        own = {} if self.setting is None else {"setting": f"{self.setting}.{name}"}
        return {"topic": self.name, **own, **more}


async def ensure_topic(admin: Admin, topic: FoldTopic) -> None:
    """Make the topic if it does not exist. Raise ConfigError if it cannot hold a fold or may not be
    made, and KafkaError."""
    if not topic.is_made:
        await _check_existing(admin, topic)
        return
    replicas = topic.replicas
    if replicas is None:
        replicas = min(REPLICAS, len((await admin.describe_cluster()).brokers))
    configs = {_POLICY: "compact", **topic.configs}
    try:
        await admin.create_topic(NewTopic(topic.name, topic.partitions, replicas, configs))
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_REPLICATION_FACTOR:
            raise ConfigError(
                f"{topic.title} cannot be made: the cluster has fewer brokers than replicas are "
                "wanted",
                **topic.facts("replication.factor", value=replicas),
            ) from error
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        await _check(admin, topic)


async def _check_existing(admin: Admin, topic: FoldTopic) -> None:
    try:
        await _check(admin, topic)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise ConfigError(
            f"{topic.title} does not exist, and the settings forbid to make it: make it with "
            f"{_POLICY}=compact, or name another topic",
            **topic.facts("topic"),
        ) from error


async def _check(admin: Admin, topic: FoldTopic) -> None:
    found = await admin.describe_configs(Resource(ResourceType.TOPIC, topic.name), names=[_POLICY])
    policy = found[0].value if found else None
    if policy != "compact":
        raise ConfigError(
            f"{topic.title} must be compacted, or its records are lost with time: set its "
            f"{_POLICY} to compact, or name another topic",
            **topic.facts("topic", cleanup_policy=policy),
        )
    partitions = len(await admin.partitions(topic.name)) if topic.is_ordered else 1
    if partitions != 1:
        raise ConfigError(
            f"{topic.title} must have one partition, or its records lose their order: name "
            "another topic",
            **topic.facts("topic", partitions=partitions),
        )
