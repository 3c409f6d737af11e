"""Dynamic settings of topics, brokers, groups and client metrics.

Invariants: only values that were set are here, never defaults. A resource without settings has no
entry. The settings of a resource are replaced and never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import ConfigRecord


class ResourceType(IntEnum):
    """Kinds of resources that can have settings, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """One resource that has settings. A broker with the name "" means all brokers."""

    resource_type: int
    name: str


class DynamicConfigs(NamedTuple):
    """The dynamic settings of all brokers, and those of one broker, which override them."""

    all_brokers: Mapping[str, str]
    one_broker: Mapping[str, str]


ALL_BROKERS: Final = Resource(ResourceType.BROKER, "")
NOTHING_SET: Final[Mapping[str, str]] = MappingProxyType({})


class Configs:
    """All dynamic settings, by resource."""

    RECORDS = (ConfigRecord,)

    __slots__ = ("by_resource", "changes")

    def __init__(self) -> None:
        self.by_resource: dict[Resource, Mapping[str, str]] = {}
        self.changes = 0
        """Grows with each change."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Configs):
            return NotImplemented
        return self.by_resource == other.by_resource

    __hash__ = None  # type: ignore[assignment]  # it changes

    def of(self, resource: Resource) -> Mapping[str, str]:
        """Return the settings of the resource; empty if none was set."""
        return self.by_resource.get(resource, NOTHING_SET)

    def of_broker(self, broker_id: int) -> DynamicConfigs:
        """Return the settings of all brokers, and those of this broker."""
        own = self.of(Resource(ResourceType.BROKER, str(broker_id)))
        return DynamicConfigs(self.of(ALL_BROKERS), own)

    def of_topic(self, name: str) -> Mapping[str, str]:
        """Return the settings of the topic."""
        return self.of(Resource(ResourceType.TOPIC, name))

    def resources(self, resource_type: int) -> Iterator[str]:
        """Yield the names of the resources of this type that have settings."""
        return (each.name for each in self.by_resource if each.resource_type == resource_type)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        assert isinstance(record, ConfigRecord)
        self.changes += 1
        resource = Resource(record.resource_type, record.resource_name)
        if record.value is not None:
            self.by_resource[resource] = {**self.of(resource), record.name: record.value}
            return
        left = {name: value for name, value in self.of(resource).items() if name != record.name}
        if left:
            self.by_resource[resource] = left
        else:
            self.by_resource.pop(resource, None)

    def forget_topic(self, name: str) -> None:
        """Drop the settings of a deleted topic. The log has no record of this family for it."""
        self.changes += 1
        self.by_resource.pop(Resource(ResourceType.TOPIC, name), None)

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        return (
            ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=value,
            )
            for resource, values in self.by_resource.copy().items()
            for name, value in sorted(values.items())
        )
