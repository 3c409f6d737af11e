"""Creates, grows and configures the copies of topics on the target."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.client import (
    AclFilter,
    AclPattern,
    AclResource,
    ConfigEntry,
    KafkaError,
    NewTopic,
    Resource,
    ResourceType,
)
from moldau.client.sync import Admin, SecurityAdmin
from moldau.connect.api import ConnectError
from moldau.errors.amounts import counted
from moldau.errors.codes import ErrorCode
from moldau.mirror.clusters import as_connect_error
from moldau.mirror.settings import SourceMirrorConfig
from moldau.mirror.topics import TopicChanges, config_changes, copied_rules, copied_settings

_log = logging.getLogger(__name__)
_NO_RULES: Final = (ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

NOT_COPIED: Final = "not copied, or only in part"
"""What the line of the status says while copies are refused."""


def partition_counts(admin: Admin) -> dict[str, int]:
    """Return the topics of a cluster with their numbers of partitions."""
    return {each.name: len(each.partitions) for each in admin.list_topics()}


class TopicCopies:
    """The copies of one mirror. It uses both admin clients and owns neither."""

    def __init__(self, config: SourceMirrorConfig, source: Admin, target: Admin) -> None:
        self._config = config
        self.route = config.route()
        self._chosen = config.config_filter()
        self._source = source
        self._target = target
        self._has_rules = config.syncs_acls
        self.refused: dict[str, str] = {}
        """The topics of the source that cannot be copied, or only in part, with the reason."""

    def check_clusters(self) -> None:
        """Raise ConnectError if source and target are one cluster, and copies would be copied."""
        ids = [admin.describe_cluster().cluster_id for admin in (self._source, self._target)]
        if ids[0] is not None and ids[0] == ids[1]:
            self.route.check_one_cluster(self.topics())

    def topics(self) -> dict[str, int]:
        """Return the source's topics to copy, with their numbers of partitions."""
        found = self._source.list_topics()
        return {
            each.name: len(each.partitions)
            for each in sorted(found, key=lambda topic: topic.name)
            if self.route.takes(each.name)
        }

    def changes(self, topics: Mapping[str, int]) -> TopicChanges:
        """Return what the target lacks of them."""
        return self.route.changes(topics, partition_counts(self._target))

    def make(self, topics: Mapping[str, int]) -> dict[str, int]:
        """Create and grow the copies. Return the topics that have one, with the numbers of
        partitions to copy. Raise ConnectError for what concerns all of them."""
        present = partition_counts(self._target)
        changes = self.route.changes(topics, present)
        before, self.refused = self.refused, {}
        origin = {self.route.remote(topic): topic for topic in topics}
        self._create(changes.create, origin)
        made = {topic: count for topic, count in topics.items() if topic not in self.refused}
        for remote, count in changes.grow.items():
            try:
                self._target.create_partitions(remote, count)
                _log.info("%s has %d partitions now, as its source", remote, count)
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_PARTITIONS:
                    topic, kept = origin[remote], present[remote]
                    self._refuse(topic, error, f"partitions from {kept} on: ")
                    made[topic] = kept
        for topic, reason in self.refused.items():
            if before.get(topic) != reason:
                _log.error("%s is %s: %s", topic, NOT_COPIED, reason)
        return made

    def _create(self, wanted: Mapping[str, int], origin: Mapping[str, str]) -> None:
        replicas = self._config.replication_factor
        new = []
        for remote, count in wanted.items():
            try:
                new.append(NewTopic(remote, count, replicas, self._settings_of(origin[remote])))
            except KafkaError as error:  # such as one that was deleted meanwhile
                self._refuse(origin[remote], error)
        for remote, result in (self._target.create_topics(new) if new else {}).items():
            if not isinstance(result, KafkaError):
                _log.info("created %s with %d partitions", remote, wanted[remote])
            elif result.code is ErrorCode.INVALID_REPLICATION_FACTOR:
                raise ConnectError(
                    f"{remote} cannot have {counted(replicas, 'replica')} -> set "
                    "replication.factor to the "
                    "number of the target's brokers or less; -1 takes its default"
                ) from result
            elif result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                self._refuse(origin[remote], result)

    def _refuse(self, topic: str, error: KafkaError, what: str = "") -> None:
        if error.retriable:
            raise as_connect_error(error, f"the copy of {topic} cannot be made now")
        self.refused[topic] = f"{what}{error}"

    def refusal(self) -> str | None:
        """Return a line that says what is not copied; None if everything is."""
        if not self.refused:
            return None
        topic, reason = next(iter(self.refused.items()))
        topics = counted(len(self.refused), "topic is", "topics are")
        return f"{topics} {NOT_COPIED}, such as {topic}: {reason}"

    def _settings_of(self, topic: str) -> dict[str, str]:
        with_defaults = self._config.defaults_from == "source"
        entries = self._entries(self._source, topic)
        return copied_settings(entries, self._chosen, with_defaults=with_defaults)

    @staticmethod
    def _entries(admin: Admin, topic: str) -> list[ConfigEntry]:
        return admin.describe_configs(Resource(ResourceType.TOPIC, topic))

    def sync_settings(self, topics: Iterable[str]) -> int:
        """Give the copies the settings of their sources. Return the number of changed topics."""
        changed = 0
        for topic in topics:
            remote = self.route.remote(topic)
            try:
                wanted = self._settings_of(topic)
                present = self._entries(self._target, remote)
                changes = config_changes(wanted, present, self._chosen)
                if not changes:
                    continue
                self._target.alter_configs(
                    Resource(ResourceType.TOPIC, remote), set_to=changes.set_to, unset=changes.unset
                )
            except KafkaError as error:
                if error.retriable:
                    raise
                _log.warning("the settings of %s are not copied: %s", topic, error)
                continue
            changed += 1
            _log.info("changed settings of %s: %s", remote, sorted({*changes.set_to,
                                                                     *changes.unset}))  # fmt: skip
        return changed

    def sync_rules(self, topics: Iterable[str]) -> None:
        """Copy the rules for reading the topics. It ends for good where a cluster has none."""
        if not self._has_rules:
            return
        chosen = AclFilter(type=AclResource.TOPIC, pattern=AclPattern.LITERAL)
        remote_of = {topic: self.route.remote(topic) for topic in topics}
        try:
            rules = copied_rules(SecurityAdmin(self._source).describe_acls(chosen), remote_of)
            results = SecurityAdmin(self._target).create_acls(rules) if rules else {}
        except KafkaError as error:
            if error.code not in _NO_RULES:
                raise
            self._has_rules = False
            _log.info("rules are not copied: %s", error)
            return
        for rule, problem in results.items():
            if problem is not None:
                _log.warning("the rule %s is not copied: %s", rule, problem)
