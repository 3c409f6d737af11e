"""The facts about settings that the controller needs, from the tables of settings.

Invariant: a value that is accepted here can be used by every broker that has these settings. The
rows of the tables decide what is rejected; this module decides on the error codes, which belong to
the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.controller.configs import DynamicConfigs, Resource, ResourceType
from moldau.broker.controller.rules import EffectiveConfig
from moldau.broker.controller.stored_settings import problem_with
from moldau.broker.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    client_metrics,
    client_metrics_settings,
    describe_resource,
    dynamic_layers,
    dynamic_refusals,
    group_conflicts,
    group_settings,
    topic_conflicts,
    topic_settings,
)
from moldau.broker.settings.description import written
from moldau.broker.settings.rules import local_retention_conflict
from moldau.config import LIST, BadSettings, Problem, list_of
from moldau.config.kinds import trim
from moldau.config.problems import UNKNOWN
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.config.table import Row, SettingTable

_TABLES: Final[Mapping[int, SettingTable]] = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: BROKER_SETTINGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
}
_ITEMS: Final = list_of()


class SettingSchema:
    """`ConfigSchema` over the settings that this node was started with."""

    def __init__(self, broker: Settings) -> None:
        self._broker = broker
        # A cache of the settings with the last dynamic ones: elections read them for each
        # partition.
        self._dynamic = DynamicConfigs({}, {})
        self._with_dynamic = broker
        self._topic_defaults: dict[str, str | None] = {}

    def is_list(self, resource_type: int, name: str) -> bool:
        """Whether the setting is a list."""
        row = _TABLES[resource_type].find(name)
        return row is not None and row.kind is LIST

    def default(self, resource_type: int, name: str, dynamic: DynamicConfigs) -> str | None:
        """Return the effective value if the resource does not set it."""
        if resource_type == ResourceType.TOPIC:
            return self._topic_default(name, self._overlaid(dynamic))
        row = _TABLES[resource_type].find(name)
        return None if row is None else written(row, row.default)

    def _topic_default(self, name: str, broker: Settings) -> str | None:
        if name not in self._topic_defaults:
            row = TOPIC_SETTINGS.find(name)
            value = None if row is None else written(row, topic_settings("", {}, broker)[row])
            self._topic_defaults[name] = value
        return self._topic_defaults[name]

    def check(
        self, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
    ) -> None:
        """Raise KafkaError if the resource, which is not a broker, cannot have these settings."""
        _CHECKS[resource.resource_type](self._broker, resource, configs, before)

    def check_broker(self, before: DynamicConfigs, after: DynamicConfigs) -> None:
        """Raise KafkaError if a broker cannot have these settings, at once or at its next start."""
        changes = [
            {name: value for name, value in new.items() if old.get(name) != value}
            for old, new in zip(before, after, strict=True)
        ]
        for changed, one_broker in zip(changes, (False, True), strict=True):
            refusals = dynamic_refusals(changed, one_broker=one_broker)
            if refusals:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "; ".join(refusals))
        problem = problem_with(self._broker, after)
        # The stored settings may be invalid already. They can still be deleted one by one.
        if problem is not None and (any(changes) or problem_with(self._broker, before) is None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        if problem is None:
            _refuse_local_retention(self._broker.overlaid(*dynamic_layers(*after)))

    def effective(
        self, resource: Resource, configs: Mapping[str, str], dynamic: DynamicConfigs
    ) -> list[EffectiveConfig]:
        """Return all settings of a topic, by name."""
        settings = topic_settings(resource.name, configs, self._overlaid(dynamic), is_stored=True)
        entries = (
            EffectiveConfig(
                each.name, each.value, each.is_read_only, each.source, each.is_sensitive
            )
            for each in describe_resource(settings)
        )
        return sorted(entries)

    def _overlaid(self, dynamic: DynamicConfigs) -> Settings:
        if dynamic != self._dynamic:
            self._dynamic = DynamicConfigs(dict(dynamic.all_brokers), dict(dynamic.one_broker))
            self._with_dynamic = self._broker.overlaid(*dynamic_layers(*dynamic))
            self._topic_defaults.clear()
        return self._with_dynamic


@contextmanager
def _refusing(code: ErrorCode, kind: str = "") -> Iterator[None]:
    try:
        yield
    except BadSettings as error:
        raise _refusal(code, error, kind) from error


def _refusal(code: ErrorCode, error: BadSettings, kind: str = "") -> KafkaError:
    return KafkaError(code, "; ".join(_described(each, kind) for each in error.problems))


def _described(problem: Problem, kind: str) -> str:
    """Return the problem in Kafka's words, which scripts search for."""
    if kind and problem.reason.startswith(UNKNOWN):
        told = str(problem).replace(f": {UNKNOWN}", "", 1)
        return f"Unknown {kind} config name: {told}"
    if problem.shown is not None:
        told = str(replace(problem, shown=None)).removeprefix(problem.name).lstrip(": ")
        return f"Invalid value {problem.shown} for configuration {problem.name}: {told}"
    return str(problem)


def _refuse_conflicts(conflicts: tuple[str, ...]) -> None:
    if conflicts:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "; ".join(conflicts))


def _refuse_local_retention(settings: Settings) -> None:
    """Reject conflicting local retention. A settings file may have this conflict, and a node starts
    with it. Then no dynamic setting can be changed or deleted until the conflict is resolved."""
    conflict = local_retention_conflict(settings)
    if conflict is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, conflict)


def _check_topic(
    broker: Settings, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
) -> None:
    with _refusing(ErrorCode.INVALID_CONFIG, "topic"):
        settings = topic_settings(resource.name, configs, broker)
    stored = topic_settings(resource.name, before, broker, is_stored=True) if before else None
    _refuse_conflicts(topic_conflicts(settings, stored))


def _check_group(
    broker: Settings, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
) -> None:
    with _refusing(ErrorCode.INVALID_CONFIG, "group"):
        settings = group_settings(resource.name, configs, broker)
    _refuse_conflicts(group_conflicts(settings))


def _check_client_metrics(
    broker: Settings, resource: Resource, configs: Mapping[str, str], before: Mapping[str, str]
) -> None:
    try:
        client_metrics_settings(resource.name, configs)
    except BadSettings as error:
        raise _refusal(_client_metrics_code(resource, configs, error), error) from error


def _client_metrics_code(
    resource: Resource, configs: Mapping[str, str], error: BadSettings
) -> ErrorCode:
    """Return the error code for client metrics. Kafka checks in this order: names, readable values,
    the interval, and selectors."""
    rows = {name: CLIENT_METRICS_SETTINGS.find(name) for name in configs}
    if not resource.name or None in rows.values():
        return ErrorCode.INVALID_REQUEST
    if any(row is not None and not _is_readable(row, configs[name]) for name, row in rows.items()):
        return ErrorCode.INVALID_CONFIG
    is_interval_bad = client_metrics.interval_ms.name in {each.name for each in error.problems}
    return ErrorCode.INVALID_REQUEST if is_interval_bad else ErrorCode.INVALID_CONFIG


def _is_readable(row: Row, value: str) -> bool:
    """Whether the value has the setting's kind, and a list no empty items. Bounds do not count."""
    try:
        read = row.kind.read(trim(value))
    except ValueError:
        return False
    return row.kind is not LIST or _ITEMS.holds(read)


_Check: TypeAlias = "Callable[[Settings, Resource, Mapping[str, str], Mapping[str, str]], None]"
_CHECKS: Final[Mapping[int, _Check]] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.CLIENT_METRICS: _check_client_metrics,
    ResourceType.GROUP: _check_group,
}
