"""The settings of the mirror connectors, by the names of Java's MirrorMaker 2.

A setting of Java's that is not built, such as a filter class of one's own, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, Literal

from moldau.connect.api import ConfigModel, Problem, key
from moldau.errors import ConfigError
from moldau.mirror.policy import (
    DEFAULT_POLICY,
    OWN_SEPARATOR,
    POLICY,
    SEPARATOR,
    NameFilter,
    ReplicationPolicy,
    pattern_faults,
    policy_of,
)
from moldau.mirror.topics import Route

PACKAGE: Final = "org.apache.kafka.connect.mirror"
ASSIGNED: Final = "task.assigned.partitions"
ASSIGNED_GROUPS: Final = "task.assigned.groups"
BROKER_DEFAULT: Final = -1
_REPLICATION, _SYNCS, _TOPICS, _GROUPS, _HEARTBEATS = (
    "Replication", "Offset syncs", "Topics", "Groups", "Heartbeats",
)  # fmt: skip
_UNBUILT: Final[Mapping[str, tuple[str, str]]] = {
    "topic.filter.class": (f"{PACKAGE}.DefaultTopicFilter", "use topics and topics.exclude"),
    "group.filter.class": (f"{PACKAGE}.DefaultGroupFilter", "use groups and groups.exclude"),
    "config.property.filter.class": (
        f"{PACKAGE}.DefaultConfigPropertyFilter",
        "use config.properties.exclude",
    ),
    "forwarding.admin.class": (
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "topics are created by the target's own API",
    ),
}
"""Settings of which only Java's default is built, and what to use instead."""
_RENAMED: Final[Mapping[str, str]] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
_CLIENT_KINDS: Final = ("consumer", "producer", "admin")
CLIENT_PREFIXES: Final = (
    "source.cluster.",
    "target.cluster.",
    *(f"{kind}." for kind in _CLIENT_KINDS),
    *(f"{side}.{kind}." for side in ("source", "target") for kind in _CLIENT_KINDS),
)
_ALIAS: Final = re.compile(r"[A-Za-z0-9._-]+")


class MirrorConfig(ConfigModel):
    """The settings that the three connectors share."""

    open_prefixes: ClassVar[tuple[str, ...]] = (*CLIENT_PREFIXES, "task.assigned.", *_UNBUILT)

    source: str = key(
        "source.cluster.alias",
        doc="The name of the source; by the default policy the names of copies begin with it.",
        importance="high", group=_REPLICATION,
    )  # fmt: skip
    target: str = key(
        "target.cluster.alias", "target",
        doc="The name of the target.", importance="high", group=_REPLICATION,
    )  # fmt: skip
    policy_class: str = key(
        POLICY, DEFAULT_POLICY, kind="CLASS",
        doc="How copies are called: DefaultReplicationPolicy (ALIAS.topic) or "
        "IdentityReplicationPolicy (the same name).", importance="low", group=_REPLICATION,
    )  # fmt: skip
    separator: str = key(
        SEPARATOR, ".", doc="What stands between alias and topic.",
        importance="low", group=_REPLICATION,
    )  # fmt: skip
    separates_internal: bool = key(
        OWN_SEPARATOR, True,
        doc="Whether the internal topics have that separator in their names too.",
        importance="low", group=_REPLICATION,
    )  # fmt: skip
    admin_timeout_ms: int = key(
        "admin.timeout.ms", 60_000, kind="LONG", ge=1,
        doc="How long a request to a cluster may take, in milliseconds.",
        importance="low", group=_REPLICATION,
    )  # fmt: skip
    enabled: bool = key(
        "enabled", True, doc="false: the connector has no tasks.",
        importance="low", group=_REPLICATION,
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        for side in ("source", "target"):
            if not self._bootstrap(side) and self._needs(side):
                yield Problem(f"{side}.cluster.bootstrap.servers", "name the cluster's brokers")
        if self.source and self.source == self.target:
            text = f"both clusters have the alias {self.source}: give each its own"
            yield Problem("source.cluster.alias", text)
        for side, alias in (("source", self.source), ("target", self.target)):
            if alias and not _ALIAS.fullmatch(alias):
                text = (
                    f"{alias!r} cannot begin the name of a topic: use ASCII letters, digits, . _ -"
                )
                yield Problem(f"{side}.cluster.alias", text)
        for name, (default, instead) in _UNBUILT.items():
            given = self.originals.get(name, default)
            if given.rpartition(".")[2] != default.rpartition(".")[2]:
                yield Problem(name, f"{name}={given} is not built: {instead}")
        for old, new in _RENAMED.items():
            if old in self.originals:
                yield Problem(old, f"{old} is called {new} since Kafka 2.7: rename it")
        if POLICY not in self.wrong and self.source:
            try:
                self.policy()
            except ConfigError as error:
                yield Problem(POLICY, str(error))

    def _bootstrap(self, side: str) -> str:
        return self.originals.get(f"{side}.cluster.bootstrap.servers", "").strip()

    def _needs(self, side: str) -> bool:
        """Whether the connector talks to this cluster itself."""
        return True

    def policy(self) -> ReplicationPolicy:
        """Return the policy."""
        return policy_of(self.originals, self.source)


def _pattern_problems(config: ConfigModel, named: Mapping[str, list[str]]) -> Iterable[Problem]:
    for name, patterns in named.items():
        if name not in config.wrong:
            for fault in pattern_faults(patterns):
                yield Problem(name, fault)


class TopicChoice(MirrorConfig):
    """The settings that choose topics, and where offset syncs are."""

    topics: list[str] = key(
        "topics", [".*"], doc="Names or Java's regular expressions of the topics to copy.",
        importance="high", group=_TOPICS,
    )  # fmt: skip
    topics_exclude: list[str] = key(
        "topics.exclude", [r"mm2.*\.internal", r".*\.replica", "__.*"],
        doc="The same of topics not to copy; this wins.", importance="high", group=_TOPICS,
    )  # fmt: skip
    copies_heartbeats: bool = key(
        "heartbeats.replication.enabled", True,
        doc="Copy topics of heartbeats although `topics` does not name them.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    syncs_location: Literal["source", "target"] = key(
        "offset-syncs.topic.location", "source",
        doc="The cluster with the topic of offset syncs.", importance="low", group=_SYNCS,
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        named = {"topics": self.topics, "topics.exclude": self.topics_exclude}
        yield from _pattern_problems(self, named)

    def route(self) -> Route:
        """Return which topics are copied, and to where."""
        chosen = NameFilter(self.topics, self.topics_exclude)
        policy = self.policy()
        return Route(self.source, self.target, policy, chosen, self.copies_heartbeats)

    @property
    def syncs_topic(self) -> str:
        """The topic of offset syncs: named after the other cluster than the one that it is on."""
        is_on_source = self.syncs_location == "source"
        return self.policy().offset_syncs_topic(self.target if is_on_source else self.source)


class SourceMirrorConfig(TopicChoice):
    """The settings of the MirrorSourceConnector."""

    replication_factor: int = key(
        "replication.factor", 2, ge=-1,
        doc="The replicas of new copies; -1: the target's default.", group=_TOPICS,
    )  # fmt: skip
    config_exclude: list[str] = key(
        "config.properties.exclude",
        [
            r"follower\.replication\.throttled\.replicas",
            r"leader\.replication\.throttled\.replicas",
            r"message\.timestamp\.difference\.max\.ms",
            r"message\.timestamp\.type",
            r"unclean\.leader\.election\.enable",
            r"min\.insync\.replicas",
        ],
        doc="Topic settings that are not copied, as regular expressions.",
        importance="high", group=_TOPICS,
    )  # fmt: skip
    defaults_from: Literal["target", "source"] = key(
        "use.defaults.from", "target",
        doc="source: a copy also gets the source's defaults as its own settings.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    syncs_configs: bool = key(
        "sync.topic.configs.enabled", True, doc="Keep the settings of copies like the source's.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    configs_s: int = key(
        "sync.topic.configs.interval.seconds", 600, ge=1, doc="How often, in seconds.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    syncs_acls: bool = key(
        "sync.topic.acls.enabled", True,
        doc="Copy the rules that allow or deny reading a topic.", importance="low", group=_TOPICS,
    )  # fmt: skip
    acls_s: int = key(
        "sync.topic.acls.interval.seconds", 600, ge=1, doc="How often, in seconds.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    refreshes: bool = key(
        "refresh.topics.enabled", True, doc="Look for new topics and partitions.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    refresh_s: int = key(
        "refresh.topics.interval.seconds", 600, ge=1, doc="How often, in seconds.",
        importance="low", group=_TOPICS,
    )  # fmt: skip
    poll_ms: int = key(
        "consumer.poll.timeout.ms", 1_000, kind="LONG", ge=1,
        doc="How long the task waits for records, in milliseconds.",
        importance="low", group=_REPLICATION,
    )  # fmt: skip
    emits_syncs: bool = key(
        "emit.offset-syncs.enabled", True,
        doc="Write offset syncs; without them offsets of groups are not translated.",
        importance="low", group=_SYNCS,
    )  # fmt: skip
    lag_max: int = key(
        "offset.lag.max", 100, kind="LONG", ge=0,
        doc="How many records may pass between two offset syncs of a partition.",
        importance="low", group=_SYNCS,
    )  # fmt: skip
    syncs_replicas: int = key(
        "offset-syncs.topic.replication.factor", 3, kind="SHORT", ge=-1,
        doc="The replicas of the topic of offset syncs; -1: the cluster's default.",
        importance="low", group=_SYNCS,
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        yield from _pattern_problems(self, {"config.properties.exclude": self.config_exclude})

    def config_filter(self) -> NameFilter:
        """Return which topic settings are copied."""
        return NameFilter([".*"], self.config_exclude)


class CheckpointConfig(TopicChoice):
    """The settings of the MirrorCheckpointConnector."""

    groups: list[str] = key(
        "groups", [".*"], doc="Names or regular expressions of the consumer groups.",
        importance="high", group=_GROUPS,
    )  # fmt: skip
    groups_exclude: list[str] = key(
        "groups.exclude", ["console-consumer-.*", "connect-.*", "__.*"],
        doc="The same of groups to leave out; this wins.", importance="high", group=_GROUPS,
    )  # fmt: skip
    emits: bool = key(
        "emit.checkpoints.enabled", True, doc="Write checkpoints to the target.",
        importance="low", group=_GROUPS,
    )  # fmt: skip
    emit_s: int = key(
        "emit.checkpoints.interval.seconds", 60, ge=1, doc="How often, in seconds.",
        importance="low", group=_GROUPS,
    )  # fmt: skip
    refreshes: bool = key(
        "refresh.groups.enabled", True, doc="Look for new groups.", importance="low", group=_GROUPS,
    )  # fmt: skip
    refresh_s: int = key(
        "refresh.groups.interval.seconds", 600, ge=1, doc="How often, in seconds.",
        importance="low", group=_GROUPS,
    )  # fmt: skip
    syncs_offsets: bool = key(
        "sync.group.offsets.enabled", False,
        doc="Set the translated offsets of groups that have no members on the target.",
        importance="low", group=_GROUPS,
    )  # fmt: skip
    sync_s: int = key(
        "sync.group.offsets.interval.seconds", 60, ge=1, doc="How often, in seconds.",
        importance="low", group=_GROUPS,
    )  # fmt: skip
    checkpoints_replicas: int = key(
        "checkpoints.topic.replication.factor", 3, kind="SHORT", ge=-1,
        doc="The replicas of the topic of checkpoints; -1: the target's default.",
        importance="low", group=_GROUPS,
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        named = {"groups": self.groups, "groups.exclude": self.groups_exclude}
        yield from _pattern_problems(self, named)
        if self.syncs_offsets and not self.emits:
            yield Problem(
                "sync.group.offsets.enabled",
                "offsets are translated with the checkpoints: set emit.checkpoints.enabled=true",
            )

    def group_filter(self) -> NameFilter:
        """Return which groups are followed."""
        return NameFilter(self.groups, self.groups_exclude)


class HeartbeatConfig(MirrorConfig):
    """The settings of the MirrorHeartbeatConnector."""

    emits: bool = key(
        "emit.heartbeats.enabled", True, doc="Write heartbeats to the target.",
        importance="low", group=_HEARTBEATS,
    )  # fmt: skip
    emit_s: int = key(
        "emit.heartbeats.interval.seconds", 1, ge=1, doc="How often, in seconds.",
        importance="low", group=_HEARTBEATS,
    )  # fmt: skip
    heartbeats_replicas: int = key(
        "heartbeats.topic.replication.factor", 3, kind="SHORT", ge=-1,
        doc="The replicas of the topic of heartbeats; -1: the target's default.",
        importance="low", group=_HEARTBEATS,
    )  # fmt: skip

    def _needs(self, side: str) -> bool:
        return side == "target"
