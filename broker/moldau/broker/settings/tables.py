"""The tables of all settings of the broker, its topics, groups and client metrics subscriptions.

Every row in the module of a noun is in its table, so none can be forgotten. Names and facts are
those of Kafka 4.4.0, which tests compare in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from moldau.broker.settings import (
    cleaner,
    client_metrics,
    console,
    controller,
    coordinator,
    creation,
    fetch,
    group,
    log,
    network,
    node,
    oauth,
    offset,
    quota,
    registry,
    replication,
    sasl,
    security,
    shards,
    share,
    streams,
    telemetry,
    tiered,
    tls,
    topic,
    transaction,
)
from moldau.broker.settings.meaning import FORGOTTEN, REMOVED
from moldau.broker.settings.of_listener import LISTENER_PREFIX
from moldau.broker.settings.resource import ResourceSettings, is_usable, resource_layer
from moldau.broker.settings.rules import RULES, WHOLE_RULES
from moldau.config import BadSettings, Layer, Problem, Setting, Settings, SettingTable, SourceKind
from moldau.config.table import Row
from moldau.link.login import token_settings

NOUNS = (
    node,
    network,
    controller,
    creation,
    log,
    cleaner,
    replication,
    fetch,
    coordinator,
    offset,
    share,
    streams,
    transaction,
    tiered,
    security,
    tls,
    sasl,
    oauth,
    token_settings,
    quota,
    telemetry,
    registry,
    console,
    shards,
)

# Names under these belong to listeners and plugins.
_OPEN_PREFIXES = (
    LISTENER_PREFIX,
    "allow.everyone.if.no.acl.found",
    "config.providers.",
    "metrics.context.",
    "rlmm.config.",
    "rsm.config.",
    "super.users",
)

# Rows of Kafka's own tests and experiments: DescribeConfigs shows them only if they are given.
INTERNAL = frozenset(
    (
        "consumer.assignor.offload.enable",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.assignor.offload.enable",
        "group.consumer.regex.refresh.interval.ms",
        "group.share.assignor.offload.enable",
        "group.share.dlq.manager.class.name",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "group.streams.assignor.offload.enable",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "internal.segment.bytes",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.assignor.offload.enable",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "streams.assignor.offload.enable",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    )
)


def rows(module: ModuleType) -> Iterator[Row]:
    """Yield the rows that are defined in a module, in their order."""
    return (value for value in vars(module).values() if isinstance(value, Setting))


BROKER_SETTINGS = SettingTable(
    (row for noun in NOUNS for row in rows(noun)),
    open_prefixes=(*_OPEN_PREFIXES, *FORGOTTEN),
    removed=REMOVED,
    rules=RULES,
    whole_rules=WHOLE_RULES,
)
TOPIC_SETTINGS = SettingTable(rows(topic))
GROUP_SETTINGS = SettingTable(rows(group))
CLIENT_METRICS_SETTINGS = SettingTable(rows(client_metrics))


def broker_settings(*layers: Layer) -> Settings:
    """Return the settings of a node. Raise BadSettings. A layer with only one of `node.id` and
    `broker.id` counts for both."""
    return BROKER_SETTINGS.resolve(*map(_with_both_ids, layers))


def _with_both_ids(layer: Layer) -> Layer:
    ids = {node.node_id.name: node.broker_id.name, node.broker_id.name: node.node_id.name}
    given = {each.name: each for each in layer if each.name in ids}
    if len(given) != 1:
        return layer
    (only,) = given.values()
    return (*layer, replace(only, name=ids[only.name]))


def topic_settings(
    name: str, values: Mapping[str, str], broker: Settings, *, is_stored: bool = False
) -> ResourceSettings:
    """Return the settings of a topic over the broker's. Raise BadSettings for unknown names and bad
    values; in stored settings those are left out. `topic_conflicts` checks combinations of values
    when they are set."""
    layer = resource_layer(values, SourceKind.TOPIC, name)
    own = _resolved(TOPIC_SETTINGS, layer, is_stored=is_stored)
    return ResourceSettings(own, broker, topic.BROKER_DEFAULTS)


def group_settings(
    name: str, values: Mapping[str, str], broker: Settings, *, is_stored: bool = False
) -> ResourceSettings:
    """Return the settings of a group over the broker's. Raise BadSettings for unknown names and bad
    values; in stored settings those are left out. `group_conflicts` checks combinations of values
    when they are set."""
    layer = resource_layer(values, SourceKind.GROUP, name)
    own = _resolved(GROUP_SETTINGS, layer, is_stored=is_stored)
    return ResourceSettings(own, broker, group.BROKER_DEFAULTS)


def client_metrics_settings(
    name: str, values: Mapping[str, str], *, is_stored: bool = False
) -> Settings:
    """Return the settings of a client metrics subscription. Raise BadSettings for unknown names and
    bad values; in stored settings those are left out."""
    if not name:
        raise BadSettings([Problem("name", "a client metrics subscription needs a name")])
    layer = resource_layer(values, SourceKind.CLIENT_METRICS, name)
    return _resolved(CLIENT_METRICS_SETTINGS, layer, is_stored=is_stored)


def _resolved(table: SettingTable, layer: Layer, *, is_stored: bool) -> Settings:
    """Resolve a layer. A newer node may have stored settings that this one does not know: they must
    not prevent its start, so stored settings that are not usable are left out."""
    if not is_stored:
        return table.resolve(layer)
    return table.resolve(
        tuple(given for given in layer if is_usable(table.find(given.name), given))
    )
