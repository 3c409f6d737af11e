"""Finds out what a connector would do: start it, request its task configs, stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.api import (
    Connector,
    ConnectorContext,
    OffsetStorageReader,
    SinkConnector,
    SourceConnector,
)
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import connector_class, resolved
from moldau.connect.installed.secrets import masked
from moldau.connect.task.diagnosis import without
from moldau.connect.task.offsets import AskedOffsets
from moldau.connect.task.settings import listed, whole
from moldau.connect.worker.guarantee import guarantee_of


class _Context(ConnectorContext):
    """The context of a connector that does not run: it has no stored offsets."""

    def request_task_reconfiguration(self) -> None:
        return

    def raise_error(self, error: Exception) -> None:
        raise ConnectError(str(error)) from error

    @property
    def offset_storage_reader(self) -> OffsetStorageReader:
        return AskedOffsets(lambda partitions: [None] * len(partitions))


def forecast(name: str, config: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, Any]:
    """Return what the connector would do, by what a user wants to know. `worker` is the worker's
    settings, for config providers."""
    kind = connector_class(config)
    connector = kind()
    connector.initialize(_Context())
    found: dict[str, Any] = {"connector": f"{kind.__module__}.{kind.__qualname__}"}
    props, secrets = resolved(config, worker)
    try:
        connector.start(props)
        tasks = connector.task_configs(whole(config, "tasks.max", 1))
    finally:
        connector.stop()
    own = [_own(task, config, props) for task in tasks]
    found["tasks"] = [without(_task(number, task), secrets) for number, task in enumerate(own)]
    found.update(_flow(name, connector, config))
    found["guarantee"] = guarantee_of(config, worker)
    return found


def _own(
    task: Mapping[str, str], config: Mapping[str, str], props: Mapping[str, str]
) -> dict[str, str]:
    """Return what a task config adds to the connector's config, without resolved values."""
    kept = {key: value for key, value in task.items() if value != props.get(key)}
    return {key: value for key, value in masked(kept, config).items() if config.get(key) != value}


def _task(number: int, own: Mapping[str, str]) -> str:
    facts = ", ".join(f"{key}={value}" for key, value in own.items())
    return f"task {number}" + (f" with {facts}" if facts else "")


def _written(config: Mapping[str, str]) -> str:
    """Return the topics of a source, as far as its settings name them."""
    if config.get("topic"):
        return config["topic"]
    prefix = config.get("topic.prefix", "")
    tables = listed(config, "table.whitelist") or listed(config, "table.include.list")
    if prefix and (config.get("query") or config.get("query.masked")):
        return prefix
    if tables:
        return ", ".join(prefix + table.rpartition(".")[2] for table in tables)
    return f"{prefix}<table>" if prefix else "as the connector decides"


def _flow(name: str, connector: Connector, config: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(connector, SinkConnector):
        found["reads"] = listed(config, "topics") or f"/{config.get('topics.regex', '')}/"
        found["group"] = config.get("consumer.override.group.id", f"connect-{name}")
        found["dead letters"] = config.get("errors.deadletterqueue.topic.name") or "none"
    elif isinstance(connector, SourceConnector):
        found["writes"] = _written(config)
    transforms = listed(config, "transforms")
    if transforms:
        found["transforms"] = transforms
    return found
