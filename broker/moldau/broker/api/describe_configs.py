"""DescribeConfigs: the settings of topics, brokers, loggers, groups, client metrics subscriptions.

A controller answers as a broker does (KIP-919), with its own settings for its id. Any node
describes topics, groups and subscriptions, from the image. A broker describes only its own settings
(only it knows its file) and the settings that all brokers share (the name "").

Groups and subscriptions need not exist: the response then has the defaults, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from moldau.broker.api.broker_loggers import describe_loggers
from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.topic_names import check_topic_name
from moldau.broker.settings import (
    BROKER_SETTINGS,
    ConfigEntry,
    EntrySynonym,
    client_metrics_settings,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_resource,
    group_settings,
    topic_settings,
)
from moldau.config import SourceKind
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.broker.controller.image import Image
    from moldau.config import Settings
    from moldau.logging import Loggers

_LOGGER_SOURCE: Final = 6
_NUMBER: Final = deferred_pattern(r"[+-]?[0-9]{1,10}")
_UNKNOWN_KIND: Final = 0
_DOCUMENTATION_NOT_KEPT: Final = ""


@dataclass(frozen=True, slots=True)
class ConfigView:
    """The settings that this broker knows: its own, the cluster's, and its loggers' levels."""

    image: Image
    settings: Settings
    node_id: int
    loggers: Loggers | None = None


def serve(node: Node, request: ApiRequest) -> None:
    """Answer at once."""
    view = ConfigView(node.image, node.settings, node.node_id, node.loggers)
    request.answer(answer(view, cast(DescribeConfigsRequest, request.decode())))


def answer(view: ConfigView, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of each resource, or its error. If the request names settings, they are
    in its order."""
    return DescribeConfigsResponse(
        results=[_described(view, request, each) for each in request.resources],
    )


def _described(
    view: ConfigView, request: DescribeConfigsRequest, wanted: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
        configs=[],
    )
    try:
        describe = _DESCRIBE.get(wanted.resource_type)
        if describe is None:
            raise _invalid(f"resources of type {wanted.resource_type} have no settings here")
        entries = describe(view, wanted.resource_name)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.reason
        return result
    if wanted.configuration_keys:
        by_name = {each.name: each for each in entries}
        names = dict.fromkeys(wanted.configuration_keys)
        entries = [by_name[name] for name in names if name in by_name]
    result.configs = [_entry(each, request) for each in entries]
    return result


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    wants_doc = request.include_documentation or entry.doc == _DOCUMENTATION_NOT_KEPT
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ],
        config_type=entry.kind,
        documentation=entry.doc if wants_doc else None,
    )


def _of_topic(view: ConfigView, name: str) -> Iterable[ConfigEntry]:
    check_topic_name(name)
    if view.image.topics.by_name(name) is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist")
    values = view.image.configs.of_topic(name)
    return describe_resource(topic_settings(name, values, view.settings, is_stored=True))


def _of_broker(view: ConfigView, name: str) -> Iterable[ConfigEntry]:
    if name == "":
        return (*describe_all_brokers(view.settings), *_strangers(view, (ALL_BROKERS,)))
    check_broker_name(name, view.node_id)
    own = Resource(ResourceType.BROKER, str(view.node_id))
    return (*describe_broker(view.settings), *_strangers(view, (own, ALL_BROKERS)))


def _strangers(view: ConfigView, resources: Sequence[Resource]) -> Iterator[ConfigEntry]:
    """Yield stored settings that are in no table, perhaps those of a plugin. Their values are
    hidden, because they may be secret. If several of `resources` have one, the first of them
    counts."""
    synonyms: dict[str, list[EntrySynonym]] = {}
    for resource in resources:
        source = (SourceKind.DYNAMIC_BROKER if resource.name else SourceKind.DYNAMIC_DEFAULT).code
        for name in view.image.configs.of(resource):
            if BROKER_SETTINGS.find(name) is None and not BROKER_SETTINGS.is_open(name):
                synonyms.setdefault(name, []).append(EntrySynonym(name, None, source))
    for name, found in synonyms.items():
        yield ConfigEntry(
            name=name,
            value=None,
            source=found[0].source,
            kind=_UNKNOWN_KIND,
            is_read_only=True,
            is_sensitive=True,
            synonyms=tuple(found),
            doc=None,
        )


def check_broker_name(name: str, node_id: int) -> None:
    """Raise KafkaError unless `name` is this broker's id: it does not know other brokers'
    settings."""
    if _NUMBER.fullmatch(name) is None:
        raise _invalid(f"a broker is named by its number, not by {name!r}")
    if int(name) != node_id:
        raise _invalid(f"broker {name} has to be asked about itself; this is broker {node_id}")


def _of_loggers(view: ConfigView, name: str) -> Iterable[ConfigEntry]:
    check_broker_name(name, view.node_id)
    return (
        ConfigEntry(
            name=each.name,
            value=each.level,
            source=_LOGGER_SOURCE,
            kind=_UNKNOWN_KIND,
            is_read_only=False,
            is_sensitive=False,
            synonyms=(),
            doc=_DOCUMENTATION_NOT_KEPT,
        )
        for each in (() if view.loggers is None else describe_loggers(view.loggers))
    )


def _of_client_metrics(view: ConfigView, name: str) -> Iterable[ConfigEntry]:
    if name == "":
        raise _invalid("a client metrics subscription needs a name")
    values = view.image.configs.of(Resource(ResourceType.CLIENT_METRICS, name))
    return describe_client_metrics(client_metrics_settings(name, values, is_stored=True))


def _of_group(view: ConfigView, name: str) -> Iterable[ConfigEntry]:
    if name == "":
        raise _invalid("a group needs a name")
    values = view.image.configs.of(Resource(ResourceType.GROUP, name))
    return describe_resource(group_settings(name, values, view.settings, is_stored=True))


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


_Describe: TypeAlias = "Callable[[ConfigView, str], Iterable[ConfigEntry]]"
_DESCRIBE: Final[Mapping[int, _Describe]] = {
    ResourceType.TOPIC: _of_topic,
    ResourceType.BROKER: _of_broker,
    ResourceType.BROKER_LOGGER: _of_loggers,
    ResourceType.CLIENT_METRICS: _of_client_metrics,
    ResourceType.GROUP: _of_group,
}
