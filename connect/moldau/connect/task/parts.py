"""The parts of a task: its resolved config, converters, transforms, and the connector's task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from moldau.connect.api import Connector, Task
from moldau.connect.installed.plugins import catalogue, connector_class
from moldau.connect.plugins import (
    Catalogue,
    new_converter,
    new_header_converter,
    transformation_stages,
)
from moldau.connect.task.chain import Chain, Converters, name_of
from moldau.connect.task.clients import settings_for
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.resolution import resolved_task
from moldau.connect.task.settings import ErrorSettings, beneath
from moldau.connect.task.tolerance import Reporter, TaskPauses, Tolerance
from moldau.connect.transforms.python import allowed_modules
from moldau.deferred import dataclass

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class Owner(TaskPauses, Protocol):
    """The runner of the task."""

    spec: TaskSpec


@dataclass(slots=True)
class Parts:
    """The parts of one task."""

    connector: Connector
    config: dict[str, str]
    task_config: dict[str, str]
    worker: dict[str, str]
    secrets: set[str]
    tolerance: Tolerance
    chain: Chain
    reporters: list[Reporter] = field(default_factory=list)

    @property
    def connector_name(self) -> str:
        """The connector's name as errors show it."""
        return name_of(self.connector)

    def new_task(self) -> Task:
        """Return a new task of the connector, not started."""
        return self.connector.task_class()()

    def client(self, kind: str) -> dict[str, str]:
        """Return the settings of a client of this kind: `producer`, `consumer` or `admin`."""
        return settings_for(self.config, self.worker, kind)

    def error_metrics(self) -> dict[str, float]:
        """Return the error metrics by Kafka Connect's names."""
        counts = self.tolerance.counts
        return {
            "total-record-failures": float(counts.failures),
            "total-record-errors": float(counts.errors),
            "total-records-skipped": float(counts.skipped),
            "total-retries": float(counts.retries),
            "total-errors-logged": float(counts.logged),
            "deadletterqueue-produce-requests": float(counts.dead_letters),
            "deadletterqueue-produce-failures": float(counts.dead_letter_failures),
            "last-error-timestamp": float(counts.last_error_ms),
        }

    def close(self) -> None:
        """Close converters and transforms."""
        self.chain.close()


def make_parts(owner: Owner) -> Parts:
    """Make the parts of a task. Raise ConfigError, or a plugin's error, for an invalid config."""
    spec = owner.spec
    found = resolved_task(spec)
    config, worker = found.config, found.worker
    reporters: list[Reporter] = []
    tolerance = Tolerance(ErrorSettings.of(config), owner, reporters)
    plugins = catalogue()
    with allowed_modules(worker):
        stages = transformation_stages(plugins, config)
    chain = Chain(converters(plugins, config, worker), stages, tolerance)
    connector = connector_class(spec.connector_config)()
    connector.props = dict(config)  # its task's class may depend on them
    return Parts(
        connector, config, found.task_config, worker, found.secrets, tolerance, chain, reporters
    )


def converters(
    plugins: Catalogue, config: Mapping[str, str], worker: Mapping[str, str]
) -> Converters:
    """Return the connector's converters with their settings; the worker's where it names none."""

    def chosen(name: str, default: str) -> tuple[str, dict[str, str]]:
        source = config if config.get(name, "").strip() else worker
        return source.get(name, "").strip() or default, beneath(source, f"{name}.")

    key, key_props = chosen("key.converter", JSON_CONVERTER)
    value, value_props = chosen("value.converter", JSON_CONVERTER)
    header, header_props = chosen("header.converter", SIMPLE_HEADER_CONVERTER)
    return Converters(
        new_converter(plugins, key, key_props, True),
        new_converter(plugins, value, value_props, False),
        new_header_converter(plugins, header, header_props),
    )
