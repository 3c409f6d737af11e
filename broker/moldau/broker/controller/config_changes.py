"""Changing settings: IncrementalAlterConfigs, and the older AlterConfigs that replaces them all.

Each resource of a request succeeds or fails as a whole. Deleting a setting that is not there
succeeds, whatever its name. Setting one to the value that it has changes nothing and makes no
record. When the smallest ISR of a topic changes, its eligible leader replicas no longer mean what
they did, so they are cleared (KIP-966).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.elections import MIN_ISR
from moldau.broker.controller.image import Image
from moldau.broker.controller.outcome import BATCH_RECORDS_MAX, Outcome
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_names import check_topic_name
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.protocol.schemas.metadata_log import ClearElrRecord, ConfigRecord


class Operation(IntEnum):
    """What is done with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One setting of the request."""

    name: str
    operation: int
    value: str | None


_KNOWN_TYPES: Final = frozenset(
    (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
)
_LISTED_TYPES: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def incremental_alter_configs(
    image: Image, rules: Rules, request: changing.IncrementalAlterConfigsRequest
) -> Outcome[changing.IncrementalAlterConfigsResponse]:
    """Set, delete, append to a list, subtract from a list."""
    records: list[MetadataRecord] = []
    responses: list[changing.AlterConfigsResourceResponse] = []

    def incremental(resource: Resource, changes: Sequence[Change]) -> dict[str, str]:
        return _changed(image, rules, resource, changes)

    wanted = [
        (
            Resource(each.resource_type, each.resource_name),
            [Change(one.name, one.config_operation, one.value) for one in each.configs],
        )
        for each in request.resources
    ]
    for resource, made, error in _alter_all(image, rules, wanted, incremental):
        records.extend(made)
        responses.append(
            changing.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.reason,
                resource_type=resource.resource_type,
                resource_name=resource.name,
            )
        )
    return Outcome(
        () if request.validate_only else tuple(records),
        changing.IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses),
    )


def alter_configs(
    image: Image, rules: Rules, request: replacing.AlterConfigsRequest
) -> Outcome[replacing.AlterConfigsResponse]:
    """What is named is set, what is not goes back to its default."""
    records: list[MetadataRecord] = []
    responses: list[replacing.AlterConfigsResourceResponse] = []
    wanted = [
        (
            Resource(each.resource_type, each.resource_name),
            [Change(one.name, Operation.SET, one.value) for one in each.configs],
        )
        for each in request.resources
    ]
    for resource, made, error in _alter_all(image, rules, wanted, _replaced):
        records.extend(made)
        responses.append(
            replacing.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.reason,
                resource_type=resource.resource_type,
                resource_name=resource.name,
            )
        )
    return Outcome(
        () if request.validate_only else tuple(records),
        replacing.AlterConfigsResponse(throttle_time_ms=0, responses=responses),
    )


def list_config_resources(
    image: Image, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """The resources that have settings or could; version 0 knows client metrics only."""
    wanted = request.resource_types or list(_LISTED_TYPES)
    if version == 0:
        wanted = [ResourceType.CLIENT_METRICS]
    if any(each not in _LISTED_TYPES for each in wanted):
        return ListConfigResourcesResponse(
            throttle_time_ms=0, error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _LISTED_TYPES
            if kind in wanted
            for name in _names(image, kind)
        ],
    )


def _names(image: Image, kind: int) -> Iterable[str]:
    if kind == ResourceType.TOPIC:
        return image.topics.names()
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return map(str, image.brokers.by_id)
    return image.configs.resources(kind)


_Wanted = Callable[[Resource, Sequence[Change]], dict[str, str]]


def _alter_all(
    image: Image,
    rules: Rules,
    wanted: Sequence[tuple[Resource, Sequence[Change]]],
    result_of: _Wanted,
) -> list[tuple[Resource, list[MetadataRecord], KafkaError | None]]:
    times_named = Counter(resource for resource, _ in wanted)
    altered: list[tuple[Resource, list[MetadataRecord], KafkaError | None]] = []
    for resource, changes in wanted:
        try:
            if times_named[resource] > 1:
                raise _invalid("the request names the resource twice")
            names = [each.name for each in changes]
            if len(set(names)) != len(names):
                raise _invalid("a setting is named twice")
            _check_resource(image, resource)
            after = result_of(resource, changes)
            made = _records(image, rules, resource, after)
        except KafkaError as error:
            altered.append((resource, [], error))
        else:
            altered.append((resource, made, None))
    assert sum(len(made) for _, made, _ in altered) <= BATCH_RECORDS_MAX, "bounded by the request"
    return altered


def _check_resource(image: Image, resource: Resource) -> None:
    kind, name = resource
    if kind not in _KNOWN_TYPES:
        raise _invalid(f"resources of type {kind} have no settings here")
    if kind == ResourceType.TOPIC:
        if name == "":
            raise _invalid("topics have no common settings of their own; set the brokers'")
        check_topic_name(name)
        if image.topics.by_name(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    elif kind == ResourceType.BROKER:
        if name != "":
            _check_broker(image, name)
    elif name == "":
        raise _invalid("the resource needs a name")


def _check_broker(image: Image, name: str) -> None:
    if not name.isascii() or not name.isdigit():
        raise _invalid(f"a broker is named by its number, not by {name!r}")
    if int(name) not in image.brokers.by_id:
        raise _invalid(f"broker {name} is not registered")


def _changed(
    image: Image, rules: Rules, resource: Resource, changes: Sequence[Change]
) -> dict[str, str]:
    after = dict(image.configs.of(resource))
    dynamic = image.configs.of_broker(rules.node_id)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise _invalid(f"no value for {name}")
        if operation == Operation.SET:
            after[name] = value
            continue
        if operation not in (Operation.APPEND, Operation.SUBTRACT):
            raise _invalid(f"{operation} is no operation on a setting")
        if not rules.configs.is_list(resource.resource_type, name):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
        before = after.get(name)
        if before is None:
            before = rules.configs.default(resource.resource_type, name, dynamic) or ""
        after[name] = _combined(before, value, operation)
    return after


def _combined(before: str, value: str, operation: int) -> str:
    items = [item.strip() for item in before.split(",") if item.strip()]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == Operation.APPEND:
        items.extend(each for each in given if each not in items)
    else:
        items = [each for each in items if each not in given]
    return ",".join(items)


def _replaced(resource: Resource, changes: Sequence[Change]) -> dict[str, str]:
    del resource
    after: dict[str, str] = {}
    for name, _, value in changes:
        if value is None:
            raise _invalid(f"no value for {name}")
        after[name] = value
    return after


def _records(
    image: Image, rules: Rules, resource: Resource, after: Mapping[str, str]
) -> list[MetadataRecord]:
    before = image.configs.of(resource)
    if dict(before) == dict(after):
        rules.configs.check(resource, after, before)
        return []
    rules.configs.check(resource, after, before)
    if image.features.is_elr_enabled:
        _check_min_isr(resource, before, after)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    records: list[MetadataRecord] = [
        ConfigRecord(
            resource_type=resource.resource_type,
            resource_name=resource.name,
            name=name,
            value=after.get(name),
        )
        for name in changed
    ]
    has_isr = resource.resource_type == ResourceType.TOPIC or resource == ALL_BROKERS
    if MIN_ISR in changed and has_isr and image.features.is_elr_enabled:
        records.append(ClearElrRecord(topic_name=resource.name))
    return records


def _check_min_isr(resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """With eligible leader replicas the cluster's smallest ISR must be known to the controller."""
    if resource == ALL_BROKERS and MIN_ISR in before and MIN_ISR not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_ISR} of all brokers stays while eligible leader replicas are in use",
        )
    of_broker = resource.resource_type == ResourceType.BROKER and resource != ALL_BROKERS
    if of_broker and before.get(MIN_ISR) != after.get(MIN_ISR):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_ISR} of one broker cannot change while eligible leader replicas are in use",
        )


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
