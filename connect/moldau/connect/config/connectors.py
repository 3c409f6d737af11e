"""The settings that every connector has: names, limits, converters, errors.

Names, types, defaults, groups and orders are Kafka's (KIP-66, 158, 298, 618, 891, 1004).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Literal

from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.java.regex import PatternError, compiled

COMMON, TRANSFORMS, PREDICATES = "Common", "Transforms", "Predicates"
ERRORS, TOPICS, EXACTLY_ONCE = "Error Handling", "Topic Creation", "Exactly Once Support"
OFFSETS = "offsets.topic"
DEFAULT_GROUP = "default"
TOPIC_PREFIX = "topic.creation."
RESTART_KEYS: Mapping[str, int] = {
    "errors.restart.max": -1,
    "errors.restart.backoff.ms": 0,
    "errors.restart.backoff.max.ms": 0,
}
"""Settings of the worker that a connector may override, each with its least value."""
ISOLATION, ISOLATIONS = "task.isolation", ("shared", "process", "thread")
DLQ_PREFIX = "errors.deadletterqueue.topic."
DLQ = f"{DLQ_PREFIX}name"
CLIENT_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")


class ConnectorConfig(ConfigModel):
    """The settings that sources and sinks share."""

    offers_choices: ClassVar[bool] = False
    open_prefixes: ClassVar[tuple[str, ...]] = (
        *CLIENT_PREFIXES,
        "key.converter.",
        "value.converter.",
        "header.converter.",
        "transforms.",
        "predicates.",
        *RESTART_KEYS,
        ISOLATION,
    )

    name: str = key(
        "name",
        doc="The name of the connector; no other connector of the cluster may have it.",
        importance="high", group=COMMON, width="medium", display="Connector name",
    )  # fmt: skip
    connector_class: str = key(
        "connector.class",
        doc="The class of the connector: its full name, its simple name, or that without the "
        'ending "Connector".',
        importance="high", group=COMMON, width="long", display="Connector class",
    )  # fmt: skip
    connector_version: str | None = key(
        "connector.plugin.version", None,
        doc="The version of the connector.",
        group=COMMON, width="medium", display="Connector version",
    )  # fmt: skip
    tasks_max: int = key(
        "tasks.max", 1,
        doc="The largest number of tasks of this connector.", ge=1,
        importance="high", group=COMMON, width="short", display="Tasks max",
    )  # fmt: skip
    tasks_max_enforce: bool = key(
        "tasks.max.enforce", True,
        doc="Fail a connector that makes more tasks than `tasks.max`. Deprecated in Kafka.",
        importance="low", group=COMMON, width="short", display="Enforce tasks max",
    )  # fmt: skip
    key_converter: str | None = key(
        "key.converter", None, kind="CLASS",
        doc="The converter of keys; without it, that of the worker.",
        importance="low", group=COMMON, width="short", display="Key converter class",
    )  # fmt: skip
    key_converter_version: str | None = key(
        "key.converter.plugin.version", None,
        doc="The version of the converter of keys.",
        importance="low", group=COMMON, width="short", display="Key converter version",
    )  # fmt: skip
    value_converter: str | None = key(
        "value.converter", None, kind="CLASS",
        doc="The converter of values; without it, that of the worker.",
        importance="low", group=COMMON, width="short", display="Value converter class",
    )  # fmt: skip
    value_converter_version: str | None = key(
        "value.converter.plugin.version", None,
        doc="The version of the converter of values.",
        importance="low", group=COMMON, width="short", display="Value converter version",
    )  # fmt: skip
    header_converter: str | None = key(
        "header.converter", None, kind="CLASS",
        doc="The converter of headers; without it, that of the worker.",
        importance="low", group=COMMON, width="short", display="Header converter class",
    )  # fmt: skip
    header_converter_version: str | None = key(
        "header.converter.plugin.version", None,
        doc="The version of the converter of headers.",
        importance="low", group=COMMON, width="short", display="Header converter version",
    )  # fmt: skip
    transforms: list[str] = key(
        "transforms", [],
        doc="Names for the transforms, in the order in which records pass through them.",
        importance="low", group=TRANSFORMS, order=12, width="long", display="Transforms",
    )  # fmt: skip
    predicates: list[str] = key(
        "predicates", [],
        doc="Names for the predicates that transforms refer to.",
        importance="low", group=PREDICATES, order=13, width="long", display="Predicates",
    )  # fmt: skip
    config_action_reload: Literal["none", "restart"] = key(
        "config.action.reload", "restart",
        doc="What happens when a config provider says that a value is outdated.",
        importance="low", group=COMMON, order=14, width="medium", display="Reload Action",
    )  # fmt: skip
    errors_retry_timeout: int = key(
        "errors.retry.timeout", 0, kind="LONG", ge=-1,
        doc="For how many milliseconds a failed operation is tried again; -1 for ever.",
        group=ERRORS, width="medium", display="Retry Timeout for Errors",
    )  # fmt: skip
    errors_retry_delay_max_ms: int = key(
        "errors.retry.delay.max.ms", 60_000, kind="LONG", ge=1,
        doc="The longest wait between two tries, in milliseconds.",
        group=ERRORS, width="medium", display="Maximum Delay Between Retries for Errors",
    )  # fmt: skip
    errors_tolerance: Literal["none", "all"] = key(
        "errors.tolerance", "none",
        doc="none: a record that fails stops its task. all: it is skipped.",
        group=ERRORS, width="short", display="Error Tolerance",
    )  # fmt: skip
    errors_log_enable: bool = key(
        "errors.log.enable", False,
        doc="Log every error, also those that are tolerated.",
        group=ERRORS, width="short", display="Log Errors",
    )  # fmt: skip
    errors_log_include_messages: bool = key(
        "errors.log.include.messages", False,
        doc="Put the record into the log beside its error.",
        group=ERRORS, width="short", display="Log Error Details",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        if "name" not in self.wrong and (not self.name or not self.name.isprintable()):
            reason = "String may not be empty" if not self.name else "String has control characters"
            yield Problem("name", _invalid("name", self.name, reason))
        for name, aliases in (("transforms", self.transforms), ("predicates", self.predicates)):
            if len(set(aliases)) < len(aliases):
                text = _invalid(name, f"[{', '.join(aliases)}]", "Duplicate alias provided.")
                yield Problem(name, text)
        yield from self._check_own_of_worker()

    def _check_own_of_worker(self) -> Iterable[Problem]:
        for name, least in RESTART_KEYS.items():
            text = self.originals.get(name)
            if text is None or not text.strip():
                continue
            try:
                is_wrong = int(text) < least
            except ValueError:
                is_wrong = True
            if is_wrong:
                yield Problem(name, _invalid(name, text, f"a whole number from {least} on"))
        isolation = self.originals.get(ISOLATION)
        if isolation is not None and isolation not in ISOLATIONS:
            yield Problem(
                ISOLATION, _invalid(ISOLATION, isolation, "must be shared, process or thread")
            )


class SinkConfig(ConnectorConfig):
    """The settings that every sink connector has."""

    topics: list[str] = key(
        "topics", [],
        doc="The topics to read, separated by commas.",
        importance="high", group=COMMON, order=4, width="long", display="Topics",
    )  # fmt: skip
    topics_regex: str = key(
        "topics.regex", "",
        doc="A regular expression of Java; the topics that match it as a whole are read.",
        importance="high", group=COMMON, order=4, width="long", display="Topics regex",
    )  # fmt: skip
    dlq_topic: str = key(
        "errors.deadletterqueue.topic.name", "",
        doc="The topic for records that fail; empty for none.",
        group=ERRORS, order=6, width="medium", display="Dead Letter Queue Topic Name",
    )  # fmt: skip
    dlq_replication_factor: int = key(
        "errors.deadletterqueue.topic.replication.factor", 3, kind="SHORT",
        doc="Replicas of that topic where it has to be created.",
        group=ERRORS, order=7, width="medium",
        display="Dead Letter Queue Topic Replication Factor",
    )  # fmt: skip
    dlq_headers: bool = key(
        "errors.deadletterqueue.context.headers.enable", False,
        doc="Add headers that begin with `__connect.errors.` and say what went wrong.",
        group=ERRORS, order=8, width="medium", display="Enable Error Context Headers",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        topics = [topic for topic in self.topics if topic]
        regex = self.topics_regex
        if bool(topics) == bool(regex):
            text = (
                "topics and topics.regex are mutually exclusive options, but both are set."
                if topics
                else "Must configure one of topics or topics.regex"
            )
            yield Problem("topics", text)
            yield Problem("topics.regex", text)
        for name, wanted in (("topics", topics), (DLQ, [self.dlq_topic] if self.dlq_topic else [])):
            for topic in wanted:
                reason = topic_name_problem(topic)
                if reason is not None:
                    yield Problem(name, _invalid(name, topic, reason))
        replicas = self.dlq_replication_factor
        if replicas < 1 and replicas != -1:
            reason = "Value must be positive, or -1 for the broker's default"
            name = f"{DLQ_PREFIX}replication.factor"
            yield Problem(name, _invalid(name, str(replicas), reason))
        if self.dlq_topic and self.dlq_topic in topics:
            yield Problem(
                "topics",
                f"The DLQ topic '{self.dlq_topic}' may not be included in the list of topics "
                f"('topics=[{', '.join(topics)}]') consumed by the connector",
            )
        try:
            compiled(regex)
            if regex and self.dlq_topic and compiled(regex).fullmatch(self.dlq_topic):
                yield Problem(
                    "topics.regex",
                    f"The DLQ topic '{self.dlq_topic}' may not be matched by the regex for the "
                    f"topics ('topics.regex={regex}') consumed by the connector",
                )
        except PatternError as error:
            yield Problem("topics.regex", _invalid("topics.regex", regex, str(error)))


class SourceConfig(ConnectorConfig):
    """The settings that every source connector has."""

    open_prefixes: ClassVar[tuple[str, ...]] = (*ConnectorConfig.open_prefixes, TOPIC_PREFIX)

    topic_creation_groups: list[str] = key(
        "topic.creation.groups", [],
        doc="Names for groups of topics that are created with settings of their own.",
        importance="low", group=TOPICS, width="long", display="Topic Creation Groups",
    )  # fmt: skip
    exactly_once_support: Literal["requested", "required"] = key(
        "exactly.once.support", "requested",
        doc="required: refuse the connector unless it promises exactly-once with this config.",
        group=EXACTLY_ONCE, order=2, width="short", display="Exactly once support",
    )  # fmt: skip
    transaction_boundary: Literal["poll", "interval", "connector"] = key(
        "transaction.boundary", "poll",
        doc="Where a transaction ends: after each poll, after a time, or where the connector says.",
        group=EXACTLY_ONCE, order=3, width="short", display="Transaction Boundary",
    )  # fmt: skip
    transaction_boundary_interval_ms: int | None = key(
        "transaction.boundary.interval.ms", None, kind="LONG", ge=0,
        doc="The time of a transaction; without it, the worker's `offset.flush.interval.ms`.",
        importance="low", group=EXACTLY_ONCE, order=4, width="short",
        display="Transaction boundary interval",
    )  # fmt: skip
    offsets_topic: str | None = key(
        "offsets.storage.topic", None, min_length=1,
        doc="Where the offsets of this connector are: only the worker's own topic is possible.",
        importance="low", group=OFFSETS, width="long", display="Offsets topic",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        yield from super().check()
        aliases = self.topic_creation_groups
        if len(set(aliases)) < len(aliases):
            name, given = "topic.creation.groups", f"[{', '.join(aliases)}]"
            yield Problem(name, _invalid(name, given, "Duplicate alias provided."))
        reason = topic_name_problem(self.offsets_topic) if self.offsets_topic else None
        if self.offsets_topic and reason is not None:
            name = "offsets.storage.topic"
            yield Problem(name, _invalid(name, self.offsets_topic, reason))
        if any(name.startswith(TOPIC_PREFIX) for name in self.originals):
            for group in topic_groups(self.originals):
                yield from group.problems()


class _TopicSettings(ConfigModel):
    """The settings of a group of topics to create."""

    include: list[str] | None = key("include", None)
    exclude: list[str] = key("exclude", [])
    replication_factor: int | None = key("replication.factor", None, kind="SHORT")
    partitions: int | None = key("partitions", None)


class TopicGroup:
    """Settings for the topics that a source creates (KIP-158). The default group has all topics
    that no other group includes; a group takes missing settings from the default group."""

    def __init__(self, name: str, props: Mapping[str, str], default: TopicGroup | None) -> None:
        self.name = name
        self._prefix = f"{TOPIC_PREFIX}{name}."
        given = {
            k.removeprefix(self._prefix): v for k, v in props.items() if k.startswith(self._prefix)
        }
        self._settings = _TopicSettings.read(given)
        self._default = default
        own = _TopicSettings.named()
        self.topic_configs = {name: text for name, text in given.items() if name not in own}
        """Settings of the topics themselves, such as `cleanup.policy`."""

    @property
    def partitions(self) -> int:
        """The number of partitions; -1 for the broker's default."""
        own = self._settings.partitions
        return own if own is not None else (self._default.partitions if self._default else -1)

    @property
    def replication_factor(self) -> int:
        """The number of replicas; -1 for the broker's default."""
        own = self._settings.replication_factor
        if own is not None:
            return own
        return self._default.replication_factor if self._default else -1

    def includes(self, topic: str) -> bool:
        """Whether the topic is created with these settings."""
        if self._default is None:
            return True
        return _matches(self._settings.include or [], topic) and not _matches(
            self._settings.exclude, topic
        )

    def problems(self) -> Iterable[Problem]:
        """Yield the problems of the settings, with the full names of the keys."""
        for problem in self._settings.problems():
            yield Problem(self._prefix + problem.key, problem.text)
        for name, value in (
            ("replication.factor", self._settings.replication_factor),
            ("partitions", self._settings.partitions),
        ):
            full = self._prefix + name
            if value is None and self._default is None and name not in self._settings.wrong:
                text = f'Missing required configuration "{full}" which has no default value.'
                yield Problem(full, text)
            elif value is not None and value != -1 and value < 1:
                reason = "Value must be positive, or -1 for the broker's default"
                yield Problem(full, _invalid(full, str(value), reason))
        for name, patterns in (
            ("include", self._settings.include or []),
            ("exclude", self._settings.exclude),
        ):
            for pattern in patterns:
                try:
                    compiled(pattern)
                except PatternError as error:
                    full = self._prefix + name
                    yield Problem(full, _invalid(full, pattern, str(error)))


def topic_groups(props: Mapping[str, str]) -> list[TopicGroup]:
    """Return the groups in the order in which they are matched; the default group is last."""
    default = TopicGroup(DEFAULT_GROUP, props, None)
    text = props.get("topic.creation.groups", "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    others = [
        TopicGroup(name, props, default) for name in dict.fromkeys(names) if name != "default"
    ]
    return [*others, default]


def _matches(patterns: Sequence[str], topic: str) -> bool:
    return any(compiled(pattern).fullmatch(topic) for pattern in patterns)


def _invalid(name: str, value: str, reason: str) -> str:
    return f"Invalid value {value} for configuration {name}: {reason}"


_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_name_problem(name: str) -> str | None:
    """Return why this name is invalid for a topic; None if it is valid."""
    if _LEGAL.fullmatch(name) and name not in (".", ".."):
        return None
    return "the name of a topic has 1 to 249 ASCII letters, digits, . _ and -"
