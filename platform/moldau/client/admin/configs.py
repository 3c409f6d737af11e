"""Settings stored in the cluster: those of topics, brokers, groups and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self

from moldau.client.admin.requests import Requests, final_error
from moldau.client.base import arguments
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.arguments import told
from moldau.link.cluster import ANY_BROKER
from moldau.protocol.messages import describe_configs as describing
from moldau.protocol.messages import incremental_alter_configs as altering
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class _Number(IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)  # UNKNOWN


class ResourceType(_Number):
    """The types of resources that may have settings, with their numbers on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(_Number):
    """The origin of a value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Resource(NamedTuple):
    """A topic by its name, or a broker by its id; the broker "" means the default of all."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting in force; `value` is None for null and for every secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether it was set neither in the cluster nor in a broker's file."""
        return self.source is ConfigSource.DEFAULT

    @property
    def is_dynamic(self) -> bool:
        """Whether it was set in the cluster: it is neither a default nor from a broker's file."""
        return self.source not in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


SET: Final = 0
_DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
_OF_ONE_BROKER: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class Configs:
    """Describes and changes the settings stored in the cluster."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def describe(
        self, resource: Resource, names: Iterable[str] | None, documentation: bool
    ) -> list[ConfigEntry]:
        resource = _resource_of(resource)
        wanted = describing.DescribeConfigsResource(
            resource_type=resource.type,
            resource_name=resource.name,
            configuration_keys=None if names is None else arguments.names_of(names, "setting"),
        )
        request = describing.DescribeConfigsRequest(
            resources=[wanted],
            include_synonyms=True,
            include_documentation=arguments.flag(documentation, "documentation"),
        )
        node_id = _node_of(resource)

        async def ask() -> list[ConfigEntry] | KafkaError:
            response = describing.DescribeConfigsResponse
            (found,) = (await self._requests.ask_once(request, response, node_id)).results
            return final_error("DescribeConfigs", found, **_told(resource)) or [
                _entry(each) for each in found.configs
            ]

        return await self._requests.for_one(ask, node_id)

    async def alter(
        self,
        resource: Resource,
        by_operation: Mapping[int, Mapping[str, str] | None],
        unset: Iterable[str],
        validate_only: bool,
    ) -> None:
        resource = _resource_of(resource)
        changes = [
            altering.AlterableConfig(name=name, config_operation=operation, value=value)
            for operation, values in by_operation.items()
            for name, value in arguments.config_values({} if values is None else values).items()
        ]
        changes += (
            altering.AlterableConfig(name=name, config_operation=_DELETE, value=None)
            for name in arguments.names_of(unset, "setting")
        )
        wanted = altering.AlterConfigsResource(
            resource_type=resource.type, resource_name=resource.name, configs=changes
        )
        request = altering.IncrementalAlterConfigsRequest(
            resources=[wanted], validate_only=arguments.flag(validate_only, "validate_only")
        )
        node_id = _node_of(resource)

        async def ask() -> KafkaError | None:
            response = altering.IncrementalAlterConfigsResponse
            (found,) = (await self._requests.ask_once(request, response, node_id)).responses
            return final_error("IncrementalAlterConfigs", found, **_told(resource))

        await self._requests.for_one(ask, node_id)

    async def resources(self, types: Iterable[ResourceType]) -> list[Resource]:
        request = ListConfigResourcesRequest(
            resource_types=[int(_type_of(each)) for each in arguments.several(types, "type")]
        )
        answer = await self._requests.ask(request, ListConfigResourcesResponse)
        raise_for("ListConfigResources", answer.error_code)
        return [
            Resource(ResourceType(each.resource_type), each.resource_name)
            for each in answer.config_resources
        ]


def _resource_of(given: object) -> Resource:
    """Return the checked resource; its type and name decide which broker gets the request."""
    if not isinstance(given, Resource):
        example = "Resource(ResourceType.TOPIC, 'orders')"
        raise TypeError(f"what has settings is a Resource, as {example}, not {told(given)}")
    return Resource(_type_of(given.type), arguments.name_of(given.name, "resource"))


def _type_of(given: object) -> ResourceType:
    return arguments.member_of(ResourceType, given, "a resource's type")


def _told(resource: Resource) -> dict[str, object]:
    return {"type": resource.type.name.lower(), "name": resource.name}


def _node_of(resource: Resource) -> int:
    """Return the broker for the request: a broker's own settings need that one, others any."""
    if resource.type not in _OF_ONE_BROKER or not resource.name:
        return ANY_BROKER
    if not (resource.name.isascii() and resource.name.isdecimal()):
        raise ConfigError("a broker goes by its number", name=resource.name)
    return int(resource.name)


def _entry(answer: describing.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        answer.name,
        answer.value,
        ConfigSource(answer.config_source),
        answer.read_only,
        answer.is_sensitive,
        tuple((each.name, each.value, ConfigSource(each.source)) for each in answer.synonyms),
        answer.documentation,
    )
