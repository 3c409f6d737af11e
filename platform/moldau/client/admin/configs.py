"""Settings that the cluster keeps: those of topics, brokers, groups and their like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.client.admin.requests import AdminRequests, error_of
from moldau.client.consumer.absence import maybe_final
from moldau.client.settings.arguments import (
    config_values,
    flag,
    member_of,
    name_of,
    names_of,
    several,
)
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.arguments import told
from moldau.link.cluster import ANY_BROKER
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ResourceType(IntEnum):
    """What may have settings, by its number on the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def _missing_(cls, value: object) -> ResourceType:
        return cls.UNKNOWN


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class Resource(NamedTuple):
    """A topic by its name, a broker by its id; the broker "" stands for the default of all."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as it is in force; `value` is None for null and for every secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it, in a broker's file neither."""
        return self.source is ConfigSource.DEFAULT

    @property
    def is_dynamic(self) -> bool:
        """Whether it was set in the cluster: neither a default nor from a broker's file."""
        return self.source not in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
_OF_ONE_BROKER: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigAdmin(AdminRequests):
    """The settings that the cluster keeps."""

    async def describe_configs(
        self,
        resource: Resource,
        *,
        names: Iterable[str] | None = None,
        documentation: bool = False,
    ) -> list[ConfigEntry]:
        """All settings of a resource, or those of these names."""
        resource = _resource_of(resource)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else names_of(names, "setting"),
                )
            ],
            include_synonyms=True,
            include_documentation=flag(documentation, "documentation"),
        )
        node_id = _node_of(resource)

        async def ask(wanted: list[Resource]) -> dict[Resource, list[ConfigEntry] | KafkaError]:
            answer = await self._ask_once(request, DescribeConfigsResponse, node_id)
            found = answer.results[0]
            error = maybe_final(error_of(found.error_code, found.error_message, **_told(resource)))
            return {resource: error or [_entry(each) for each in found.configs]}

        await self._require_broker(node_id)
        result = (await self._for_each([resource], ask))[resource]
        if isinstance(result, KafkaError):
            raise result
        return result

    async def alter_configs(
        self,
        resource: Resource,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Changes settings of a resource, all or none; `append` and `subtract` are for lists.
        `validate_only` only says whether it could be done."""
        resource = _resource_of(resource)
        changes: list[AlterableConfig] = []
        for operation, values in ((_SET, set_to), (_APPEND, append), (_SUBTRACT, subtract)):
            changes += (
                AlterableConfig(name=name, config_operation=operation, value=value)
                for name, value in config_values({} if values is None else values).items()
            )
        changes += (
            AlterableConfig(name=name, config_operation=_DELETE, value=None)
            for name in names_of(unset, "setting")
        )
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=changes,
                )
            ],
            validate_only=flag(validate_only, "validate_only"),
        )
        node_id = _node_of(resource)

        async def ask(wanted: list[Resource]) -> dict[Resource, KafkaError | None]:
            answer = await self._ask_once(request, IncrementalAlterConfigsResponse, node_id)
            found = answer.responses[0]
            error = maybe_final(error_of(found.error_code, found.error_message, **_told(resource)))
            return {resource: error}

        await self._require_broker(node_id)
        result = (await self._for_each([resource], ask))[resource]
        if result is not None:
            raise result

    async def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[Resource]:
        """What has settings of its own; of all types unless some are named."""
        request = ListConfigResourcesRequest(
            resource_types=[int(_type_of(each)) for each in several(types, "type")]
        )
        answer = await self._ask(request, ListConfigResourcesResponse)
        raise_for(answer.error_code, api="ListConfigResources")
        return [
            Resource(ResourceType(each.resource_type), each.resource_name)
            for each in answer.config_resources
        ]


def _resource_of(given: object) -> Resource:
    """What has settings; its type and name decide which broker is asked."""
    if not isinstance(given, Resource):
        example = "Resource(ResourceType.TOPIC, 'orders')"
        raise TypeError(f"what has settings is a Resource, as {example}, not {told(given)}")
    return Resource(_type_of(given.type), name_of(given.name, "resource"))


def _type_of(given: object) -> ResourceType:
    return member_of(ResourceType, given, "a resource's type")


def _told(resource: Resource) -> dict[str, object]:
    return {"type": resource.type.name.lower(), "name": resource.name}


def _node_of(resource: Resource) -> int:
    """A broker's own settings are its business; all others any broker knows."""
    if resource.type not in _OF_ONE_BROKER or not resource.name:
        return ANY_BROKER
    if not (resource.name.isascii() and resource.name.isdecimal()):
        raise ConfigError("a broker goes by its number", name=resource.name)
    return int(resource.name)


def _entry(answer: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        answer.name,
        answer.value,
        ConfigSource(answer.config_source),
        answer.read_only,
        answer.is_sensitive,
        tuple((each.name, each.value, ConfigSource(each.source)) for each in answer.synonyms),
        answer.documentation,
    )
