"""A worker's settings, by Kafka Connect's names. No IO.

The `workers.properties` of Kafka Connect works without changes. Names of other parts (`producer.`,
converters) are kept for these parts; a name that nothing reads is a warning with the nearest known
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from moldau.connect.config.exactly_once import is_leader_transactional, leader_id, support_of
from moldau.connect.config.model import Problem
from moldau.connect.config.warnings import unknown_keys
from moldau.connect.task.file_places import FILE_DIRECTORIES, WORKING_DIRECTORY
from moldau.connect.task.settings import Config, truth, whole
from moldau.connect.task.spans import traces_of
from moldau.connect.worker.kafka_settings import (
    BUILT,
    IGNORED,
    IGNORED_PREFIXES,
    OF_LOGINS,
    REFUSED,
    check_promises,
    ignored_settings,
)
from moldau.connect.worker.kafka_settings_table import EVERY_WORKER, OF_A_GROUP
from moldau.connect.worker.placement import ISOLATIONS
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.folds.topic import FoldTopic
from moldau.runtime.backoff import Backoff
from moldau.runtime.restarts import RestartPolicy

DEFAULTS: Final = {row.name: row.default for row in EVERY_WORKER if row.default is not None}
DISTRIBUTED: Final = {row.name: row.default for row in OF_A_GROUP if row.default is not None}
_MAKES_TOPICS: Final = "internal.topics.automatic.creation.enable"
_SWITCHES: Final = (
    "topic.tracking.enable",
    "topic.tracking.allow.reset",
    "topic.creation.enable",
    _MAKES_TOPICS,
)
_OF_PARTS: Final = (
    "producer.",
    "consumer.",
    "admin.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "listeners.https.",
)
_RESERVED: Final = frozenset({"cleanup.policy", "partitions", "replication.factor", "topic"})


def complete(given: Config, *, is_distributed: bool) -> dict[str, str]:
    """Return the settings with defaults. Raise ConfigError for an invalid value."""
    directories = "" if is_distributed else WORKING_DIRECTORY
    found = {
        FILE_DIRECTORIES: directories,
        **DEFAULTS,
        **(DISTRIBUTED if is_distributed else {}),
        **given,
    }
    if found["task.isolation"] not in ISOLATIONS:
        raise ConfigError(
            "must be shared, process or thread",
            setting="task.isolation",
            value=found["task.isolation"],
        )
    if not _is_count(whole(found, "task.hosts.max", -1)):
        raise ConfigError(
            "must be positive, or -1 for one for each core, at least 4",
            setting="task.hosts.max",
            value=found["task.hosts.max"],
        )
    check_promises(found)
    support_of(found)
    traces_of(found)
    for name in (each for each in found if each in DEFAULTS or each in DISTRIBUTED):
        if name.endswith(".ms") and whole(found, name, 0) < 0:
            raise ConfigError("must be 0 or more", setting=name, value=found[name])
        if name.endswith((".partitions", ".factor")) and not _is_count(whole(found, name, 0)):
            raise ConfigError(
                "must be positive, or -1 for the broker's default", setting=name, value=found[name]
            )
    for name in _SWITCHES:
        truth(found, name, True)
    return found


def _is_count(number: int) -> bool:
    return number == -1 or number > 0


def unknown_settings(given: Config) -> Iterator[Problem]:
    """Yield a warning for each setting that has no effect, or a name that nothing reads."""
    yield from ignored_settings(given)
    known = {*DEFAULTS, *DISTRIBUTED, *BUILT, *IGNORED, *REFUSED, *OF_LOGINS}
    yield from unknown_keys(given, known, (*_OF_PARTS, *IGNORED_PREFIXES))


def restart_policy(worker: Config, connector: Config) -> RestartPolicy:
    """Return the connector's `errors.restart.*`, with the worker's as defaults."""
    both = {**worker, **connector}
    restarts_max = whole(both, "errors.restart.max", -1)
    longest_ms = max(1, whole(both, "errors.restart.backoff.max.ms", 300_000))
    first_ms = min(max(1, whole(both, "errors.restart.backoff.ms", 1_000)), longest_ms)
    return RestartPolicy(
        Backoff(first_ms, longest_ms),
        steady_ms=longest_ms,
        failures_max=None if restarts_max < 0 else restarts_max + 1,
    )


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """The internal topics of a distributed worker."""

    config: FoldTopic
    offset: FoldTopic
    status: FoldTopic
    leader_id: str | None
    """The transactional id with which the leader writes configs; None without transactions."""


def internal_topics(worker: Config) -> InternalTopics:
    """Return the topics of these settings. The config topic has one partition, to keep order."""
    config = replace(_topic(worker, "config", 1), is_ordered=True)
    leader = leader_id(worker["group.id"]) if is_leader_transactional(worker) else None
    return InternalTopics(
        replace(config, has_transactions=leader is not None),
        offset_topic(worker),
        _topic(worker, "status", whole(worker, "status.storage.partitions", 5)),
        leader,
    )


def offset_topic(worker: Config) -> FoldTopic:
    """Return the topic of the offsets, which tasks may write to in transactions."""
    found = _topic(worker, "offset", whole(worker, "offset.storage.partitions", 25))
    return replace(found, has_transactions=is_leader_transactional(worker))


def _topic(worker: Config, kind: str, partitions: int) -> FoldTopic:
    prefix = f"{kind}.storage"
    own = {
        name.removeprefix(f"{prefix}."): value
        for name, value in worker.items()
        if name.startswith(f"{prefix}.")
    }
    return FoldTopic(
        worker[f"{prefix}.topic"],
        "an internal topic",
        partitions,
        whole(worker, f"{prefix}.replication.factor", -1),
        {name: value for name, value in own.items() if name not in _RESERVED},
        is_made=truth(worker, _MAKES_TOPICS, True),
        setting=prefix,
    )
