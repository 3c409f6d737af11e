"""How topics are called on the target, and which topics are copies. No IO.

The default policy puts the alias of the source before the name (`A.orders`), which also shows where
a topic came from, so that two clusters that mirror each other do not copy in circles. The identity
policy keeps the names; only heartbeats have the alias.

Which topics, groups and topic settings are mirrored is said by lists of Java's regular expressions.
A name is chosen if an expression of the first list matches it as a whole, and none of the second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from moldau.connect.java.regex import PatternError, compiled
from moldau.errors import ConfigError
from moldau.operations.hidden import Names

SEPARATOR: Final = "replication.policy.separator"
POLICY: Final = "replication.policy.class"
OWN_SEPARATOR: Final = "replication.policy.internal.topic.separator.enabled"
HEARTBEATS: Final = "heartbeats"
DEFAULT_POLICY: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
_DOT: Final = "."


class ReplicationPolicy:
    """The default policy: the source's alias, a separator, the topic's name."""

    def __init__(self, separator: str = _DOT, *, separates_internal: bool = True) -> None:
        self.separator = separator
        self._internal = separator if separates_internal else _DOT

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name that a topic of the cluster `source` has on the target."""
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None if it is no copy."""
        source, found, _ = topic.partition(self.separator)
        return source if found else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a copied topic on its source; None if it is no copy."""
        _, found, name = topic.partition(self.separator)
        return name if found else None

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic where it was not yet a copy."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether a topic of the source has come from the target, maybe through other clusters."""
        source = self.topic_source(topic)
        if source is None:
            return False
        if source == target:
            return True
        upstream = self.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream, target)

    def is_heartbeats(self, topic: str) -> bool:
        """Whether the topic holds heartbeats of a mirror, or is a copy of such a topic."""
        return self.original_topic(topic) == HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic with the offsets of records on both clusters."""
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, source: str) -> str:
        """Return the topic on the target with the offsets of the source's groups."""
        return f"{source}{self._internal}checkpoints{self._internal}internal"

    def is_internal(self, topic: str) -> bool:
        """Whether the topic belongs to Kafka, to Connect or to a mirror, so is never copied."""
        ending = f"{self._internal}internal"
        is_ours = topic.startswith("mm2") and topic.endswith(ending)
        is_kafkas = topic.startswith(("__", "."))
        return is_ours or is_kafkas or topic.endswith(("-internal", ".internal", ending))


class IdentityPolicy(ReplicationPolicy):
    """Keeps names. It cannot see where a topic came from: mirror in one direction only."""

    def __init__(
        self, source: str, separator: str = _DOT, *, separates_internal: bool = True
    ) -> None:
        super().__init__(separator, separates_internal=separates_internal)
        self._source = source

    def remote_topic(self, source: str, topic: str) -> str:
        if self._is_named_by_source(topic):
            return super().remote_topic(source, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if self._is_named_by_source(topic):
            return super().topic_source(topic)
        return self._source

    def upstream_topic(self, topic: str) -> str | None:
        if self._is_named_by_source(topic):
            return super().upstream_topic(topic)
        return topic

    def _is_named_by_source(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")


def policy_of(props: Mapping[str, str], source: str) -> ReplicationPolicy:
    """Return the policy that a connector's settings name. Raise ConfigError for another class."""
    name = props.get(POLICY, "").strip() or DEFAULT_POLICY
    separator = props.get(SEPARATOR) or _DOT
    separates = props.get(OWN_SEPARATOR, "true").strip().lower() != "false"
    match name.rpartition(".")[2]:
        case "DefaultReplicationPolicy":
            return ReplicationPolicy(separator, separates_internal=separates)
        case "IdentityReplicationPolicy":
            return IdentityPolicy(source, separator, separates_internal=separates)
    raise ConfigError(
        "must be DefaultReplicationPolicy or IdentityReplicationPolicy", setting=POLICY, value=name
    )


class NameFilter:
    """Chooses names."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        """Raise PatternError for an expression that is none."""
        include = [each for each in include if each]
        self._include = _compiled(include)
        self._texts = dict(zip(include, self._include, strict=True))
        self._exclude = _compiled(exclude)

    def takes(self, name: str) -> bool:
        """Whether the name is chosen."""
        return _matches(self._include, name) and not _matches(self._exclude, name)

    @property
    def names(self) -> list[Names]:
        """Names with all that may be chosen."""
        return [Names.of_regex(each) for each in self._texts]

    def unmatched(self, names: Collection[str]) -> list[str]:
        """Return the expressions of the first list that match none of these names."""
        return [
            text
            for text, pattern in self._texts.items()
            if not any(pattern.fullmatch(name) for name in names)
        ]


def _compiled(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    return [compiled(each) for each in patterns if each]


def _matches(patterns: Sequence[re.Pattern[str]], name: str) -> bool:
    return any(each.fullmatch(name) for each in patterns)


def pattern_faults(patterns: Iterable[str]) -> Iterable[str]:
    """Yield the reason for each expression that is none."""
    for each in patterns:
        try:
            compiled(each)
        except PatternError as error:
            yield str(error)
