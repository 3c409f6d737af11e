"""Creates the topics of a source before the first record, with the connector's settings (KIP-158).

`topic.creation.default.*` is for all topics, `topic.creation.GROUP.*` for those that GROUP's
`include` matches and its `exclude` does not. Without them the broker creates topics by its own
settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.client import KafkaError, NewTopic
from moldau.client.sync import Admin
from moldau.connect.java.regex import PatternError, compiled
from moldau.connect.task.settings import Config, beneath, listed, truth, whole
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode

_PREFIX = "topic.creation."
_OWN = frozenset({"include", "exclude", "replication.factor", "partitions"})
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class TopicCreationGroup:
    """A group of topics, by name patterns, and the settings of its new topics."""

    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )

    def new_topic(self, topic: str) -> NewTopic:
        return NewTopic(topic, self.partitions, self.replication_factor, self.configs)


def topic_groups(config: Config) -> list[TopicCreationGroup]:
    """Return the groups in order, the default group last; [] if there is no default group."""
    settings = beneath(config, _PREFIX)
    if not any(name.startswith(f"{DEFAULT}.") for name in settings):
        return []
    names = [name for name in listed(config, f"{_PREFIX}groups") if name != DEFAULT]
    defaults = beneath(settings, f"{DEFAULT}.")
    groups = [_group(name, {**_counts(defaults), **beneath(settings, f"{name}.")})
              for name in names]  # fmt: skip
    return [*groups, _group(DEFAULT, {**defaults, "include": ".*"})]


def _counts(defaults: Mapping[str, str]) -> dict[str, str]:
    kept = ("replication.factor", "partitions")
    return {name: defaults[name] for name in kept if name in defaults}


def _group(name: str, settings: Mapping[str, str]) -> TopicCreationGroup:
    return TopicCreationGroup(
        _patterns(name, settings, "include"),
        _patterns(name, settings, "exclude"),
        whole(settings, "partitions", -1),
        whole(settings, "replication.factor", -1),
        {key: value for key, value in settings.items() if key not in _OWN},
    )


def _patterns(name: str, settings: Mapping[str, str], key: str) -> tuple[re.Pattern[str], ...]:
    found = []
    for text in listed(settings, key):
        try:
            found.append(compiled(text))
        except PatternError as error:
            raise ConfigError(
                "is no regular expression",
                setting=f"{_PREFIX}{name}.{key}",
                value=text,
                error=str(error),
            ) from None
    return tuple(found)


class TopicCreation:
    """Creates the topics of one task. It calls the cluster once for each topic."""

    def __init__(self, config: Config, worker: Config, admin_settings: Mapping[str, str]) -> None:
        is_on = truth(worker, "topic.creation.enable", True)
        self._groups = topic_groups(config) if is_on else []
        self._settings = dict(admin_settings)
        self._admin: Admin | None = None
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Create the topic if it does not exist, unless that is left to the broker."""
        if topic in self._known or not self._groups:
            return
        group = next(each for each in self._groups if each.matches(topic))
        if self._admin is None:
            self._admin = Admin(self._settings)
            self._admin.start()
        try:
            self._admin.create_topic(group.new_topic(topic))
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        self._known.add(topic)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def ensure_dead_letter_topic(settings: Mapping[str, str], topic: str, replicas: int) -> None:
    """Create the topic if it does not exist. `replicas` -1: the cluster's default."""
    with Admin(dict(settings)) as admin:
        try:
            admin.create_topic(NewTopic(topic, 1, replicas))
        except KafkaError as error:
            if error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
                raise ConfigError(
                    "the cluster has fewer brokers than replicas are wanted",
                    setting="errors.deadletterqueue.topic.replication.factor",
                    value=replicas,
                ) from error
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
