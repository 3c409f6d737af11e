"""What has to be done to the topics of the target, given those of the source. No IO.

A copy has as many partitions as its source; it is created where it is missing and grows with it,
and never shrinks. Its settings follow the source's, except for those that are excluded. Rules for a
topic are copied for reading only: nothing but the mirror is to write to a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from moldau.client import Acl, AclOperation, AclPattern, AclPermission, AclResource, ConfigEntry
from moldau.connect.api import ConnectError
from moldau.deferred import dataclass
from moldau.mirror.policy import HEARTBEATS, NameFilter, ReplicationPolicy


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The topics to create and to grow on the target, each with its number of partitions."""

    create: Mapping[str, int] = field(default_factory=dict)
    grow: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """The way of topics from a source to a target."""

    source: str
    target: str
    policy: ReplicationPolicy
    topics: NameFilter
    copies_heartbeats: bool = True

    def takes(self, topic: str) -> bool:
        """Whether a topic of the source is copied."""
        policy = self.policy
        if policy.is_internal(topic) or policy.is_cycle(topic, self.target):
            return False
        return self.topics.takes(topic) or (self.copies_heartbeats and policy.is_heartbeats(topic))

    def remote(self, topic: str) -> str:
        """Return the name of a topic's copy."""
        return self.policy.remote_topic(self.source, topic)

    def check_one_cluster(self, topics: Iterable[str]) -> None:
        """Raise ConnectError if a copy would be copied again, as source and target are one cluster.
        Its log, or the number of its copies, would grow without end."""
        for topic in (*topics, *([HEARTBEATS] if self.copies_heartbeats else [])):
            copy = self.remote(topic)
            if self.takes(copy):
                raise ConnectError(
                    f"source and target are one cluster, and {copy}, the copy of {topic}, would be "
                    "copied again without end -> correct the address of the target"
                )

    def changes(
        self, source_topics: Mapping[str, int], target_topics: Mapping[str, int]
    ) -> TopicChanges:
        """Return what the target lacks. Both mappings are from topics to partition counts."""
        wanted = {self.remote(topic): count for topic, count in source_topics.items()}
        create = {topic: count for topic, count in wanted.items() if topic not in target_topics}
        grow = {
            topic: count
            for topic, count in wanted.items()
            if topic in target_topics and target_topics[topic] < count
        }
        return TopicChanges(create, grow)


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The settings of a topic to set and to return to their defaults."""

    set_to: Mapping[str, str] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.set_to or self.unset)


def copied_settings(
    entries: Iterable[ConfigEntry], chosen: NameFilter, *, with_defaults: bool = False
) -> dict[str, str]:
    """Return the settings of a source's topic that its copy gets: those that were set for it, and
    `with_defaults` also the source's own defaults."""
    return {
        each.name: each.value
        for each in entries
        if each.value is not None
        and not each.is_read_only
        and not each.is_sensitive
        and (with_defaults or each.source.name == "TOPIC")
        and chosen.takes(each.name)
    }


def config_changes(
    wanted: Mapping[str, str], present: Iterable[ConfigEntry], chosen: NameFilter
) -> ConfigChanges:
    """Return how the settings of a copy become those that are wanted."""
    own = {each.name: each for each in present}
    set_to = {
        name: value for name, value in wanted.items() if name not in own or own[name].value != value
    }
    unset = frozenset(
        name
        for name, each in own.items()
        if each.source.name == "TOPIC" and name not in wanted and chosen.takes(name)
    )
    return ConfigChanges(set_to, unset)


def copied_rules(rules: Iterable[Acl], remote_of: Mapping[str, str]) -> list[Acl]:
    """Return the rules for the copies of these topics: `remote_of` has their names. A rule that
    allows writing is left out, and one that allows everything allows reading."""
    found = []
    for rule in rules:
        is_for_topic = rule.type is AclResource.TOPIC and rule.pattern is AclPattern.LITERAL
        if not is_for_topic or rule.name not in remote_of:
            continue
        if rule.permission is AclPermission.ALLOW and rule.operation is AclOperation.WRITE:
            continue
        if rule.permission is AclPermission.ALLOW and rule.operation is AclOperation.ALL:
            rule = replace(rule, operation=AclOperation.READ)
        found.append(replace(rule, name=remote_of[rule.name]))
    return found


def divided(items: list[str], count: int) -> list[list[str]]:
    """Deal items out to at most `count` shares; none is empty."""
    shares = min(len(items), count)
    return [items[at::shares] for at in range(shares)]
