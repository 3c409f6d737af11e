"""Changes of settings: IncrementalAlterConfigs, and the older AlterConfigs that replaces them all.

Each resource of a request succeeds or fails as a whole. Only a request with more records than enter
the log at once is rejected completely. Deleting a setting that is not set succeeds, whatever its
name; the only exception is the minimum ISR of one broker (KIP-966). Setting the same value again
makes no record, except for brokers: the record makes them check again the file or other thing that
the value names (KAFKA-14136). When the minimum ISR of a topic changes, its eligible leader replicas
lose their meaning and are cleared (KIP-966).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.controller.elections import MIN_ISR
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import METADATA_VERSION, supports_cordoned_directories
from moldau.broker.controller.outcome import Outcome, check_record_count
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_names import check_topic_name
from moldau.broker.settings.log import cordoned_log_dirs
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.protocol.messages.restore_topic import RESTORING
from moldau.protocol.schemas.metadata_log import ClearElrRecord, ConfigRecord


class Operation(IntEnum):
    """The operations on one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One setting of the request."""

    name: str
    operation: int
    value: str | None


class Verdict(NamedTuple):
    """The result for one resource."""

    error_code: int = ErrorCode.NONE
    error_message: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> Verdict:
        """Return the result for a resource that is rejected."""
        return cls(error.code, error.reason)


AlterRequest: TypeAlias = replacing.AlterConfigsRequest | changing.IncrementalAlterConfigsRequest
RequestedChanges: TypeAlias = Sequence[tuple[Resource, Sequence[Change]]]
Verdicts: TypeAlias = Sequence[tuple[Resource, Verdict]]
R = TypeVar("R")

DONE: Final = Verdict()
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
    """Apply the operations: set, delete, append to a list, subtract from a list."""

    def incremental(resource: Resource, changes: Sequence[Change]) -> dict[str, str]:
        return _changed(image, rules, resource, changes)

    records, verdicts = _alter_all(image, rules, request, incremental)
    return Outcome(records, incremental_response(verdicts))


def alter_configs(
    image: Image, rules: Rules, request: replacing.AlterConfigsRequest
) -> Outcome[replacing.AlterConfigsResponse]:
    """Set the named settings, and reset all others to their defaults. The mark of a restore stays:
    it is no setting."""

    def replacing_all(resource: Resource, changes: Sequence[Change]) -> dict[str, str]:
        mark = image.configs.of(resource).get(RESTORING)
        kept = {} if mark is None else {RESTORING: mark}
        return {**kept, **_replaced(changes)}

    records, verdicts = _alter_all(image, rules, request, replacing_all)
    return Outcome(records, replacing_response(verdicts))


def wanted_of(request: AlterRequest) -> list[tuple[Resource, list[Change]]]:
    """Return the changes that the request contains, in its order."""
    return [
        (
            Resource(each.resource_type, each.resource_name),
            [_change_of(one) for one in each.configs],
        )
        for each in request.resources
    ]


def _change_of(config: replacing.AlterableConfig | changing.AlterableConfig) -> Change:
    if isinstance(config, changing.AlterableConfig):
        return Change(config.name, config.config_operation, config.value)
    return Change(config.name, Operation.SET, config.value)


def incremental_response(verdicts: Verdicts) -> changing.IncrementalAlterConfigsResponse:
    """Return the response of IncrementalAlterConfigs."""
    rows = _rows(changing.AlterConfigsResourceResponse, verdicts)
    return changing.IncrementalAlterConfigsResponse(responses=rows)


def replacing_response(verdicts: Verdicts) -> replacing.AlterConfigsResponse:
    """Return the response of AlterConfigs."""
    rows = _rows(replacing.AlterConfigsResourceResponse, verdicts)
    return replacing.AlterConfigsResponse(responses=rows)


def _rows(row: Callable[..., R], verdicts: Verdicts) -> list[R]:
    """Return the rows of either response. Both have the same fields, in two classes."""
    return [
        row(
            error_code=verdict.error_code,
            error_message=verdict.error_message,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, verdict in verdicts
    ]


def list_config_resources(
    image: Image, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """Return the resources that have or may have settings. Version 0 knows client metrics only."""
    wanted = request.resource_types or list(_LISTED_TYPES)
    if version == 0:
        wanted = [ResourceType.CLIENT_METRICS]
    if any(each not in _LISTED_TYPES for each in wanted):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
        )
    return ListConfigResourcesResponse(
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


def _alter_all(
    image: Image,
    rules: Rules,
    request: AlterRequest,
    result_of: Callable[[Resource, Sequence[Change]], dict[str, str]],
) -> tuple[tuple[MetadataRecord, ...], list[tuple[Resource, Verdict]]]:
    wanted = wanted_of(request)
    times_named = Counter(resource for resource, _ in wanted)
    records: list[MetadataRecord] = []
    verdicts: list[tuple[Resource, Verdict]] = []
    for resource, changes in wanted:
        try:
            if times_named[resource] > 1:
                raise _invalid("the request names the resource twice")
            names = [each.name for each in changes]
            if len(set(names)) != len(names):
                raise _invalid("a setting is named twice")
            _check_resource(image, rules, resource)
            if image.features.is_elr_enabled and MIN_ISR in names and _is_one_broker(resource):
                raise _fixed_min_isr()
            again = _said_again(resource, changes)
            records += _records(image, rules, resource, result_of(resource, changes), again)
        except KafkaError as error:
            verdicts.append((resource, Verdict.of(error)))
        else:
            verdicts.append((resource, DONE))
    check_record_count(records)
    return () if request.validate_only else tuple(records), verdicts


def _check_resource(image: Image, rules: Rules, resource: Resource) -> None:
    kind, name = resource
    if kind not in _KNOWN_TYPES:
        raise _invalid(f"resources of type {kind} have no settings here")
    if kind == ResourceType.TOPIC:
        if name == "":
            raise _invalid("topics have no common settings of their own; set the brokers'")
        check_topic_name(name)
        if image.topics.by_name(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
    elif kind == ResourceType.BROKER and name != "":
        _check_node(image, rules, name)


def _check_node(image: Image, rules: Rules, name: str) -> None:
    """Reject an id that no broker and no controller has. A controller has settings too: tools with
    `--bootstrap-controller` change those of all nodes that the quorum names."""
    if not name.isascii() or not name.isdigit():
        raise _invalid(f"a broker is named by its number, not by {name!r}")
    known = image.brokers
    if int(name) not in (*known.by_id, *known.controllers, rules.node_id):
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
            raise _invalid(f"Null value not supported for {name}")
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
    given = _parts(value)
    if operation == Operation.APPEND:
        items.extend(each for each in given if each not in items)
    else:
        items = [each for each in items if each not in given]
    return ",".join(items)


def _parts(value: str) -> list[str]:
    """Split a list as Java does. Empty items at the end do not count, unless the list has no other
    items. Other empty items are kept, and the list's own rules decide about them."""
    text = value.rstrip(",")
    return [item.strip() for item in text.split(",")] if text or not value else []


def _replaced(changes: Sequence[Change]) -> dict[str, str]:
    after: dict[str, str] = {}
    for name, _, value in changes:
        if value is None:
            raise _invalid(f"Null value not supported for {name}")
        after[name] = value
    return after


def _said_again(resource: Resource, changes: Sequence[Change]) -> set[str]:
    """Return the settings that get a record even if their value does not change."""
    if resource.resource_type != ResourceType.BROKER:
        return set()
    return {each.name for each in changes if each.operation != Operation.DELETE}


def _records(
    image: Image, rules: Rules, resource: Resource, after: Mapping[str, str], again: set[str]
) -> list[MetadataRecord]:
    before = image.configs.of(resource)
    _check(image, rules, resource, after)
    if image.features.is_elr_enabled:
        _check_min_isr(resource, before, after)
    changed = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) or name in again
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
    is_isr_new = before.get(MIN_ISR) != after.get(MIN_ISR)
    if is_isr_new and has_isr and image.features.is_elr_enabled:
        records.append(ClearElrRecord(topic_name=resource.name))
    return records


def _check(image: Image, rules: Rules, resource: Resource, after: Mapping[str, str]) -> None:
    """Check the settings of a resource. For a broker, its own settings count together with those of
    all brokers, which they override."""
    if resource.name == "" and resource != ALL_BROKERS:
        raise _invalid("the resource needs a name")
    if resource.resource_type != ResourceType.BROKER:
        given, stored = dict(after), dict(image.configs.of(resource))
        if given.get(RESTORING) == stored.pop(RESTORING, None):
            given.pop(RESTORING, None)
        rules.configs.check(resource, given, stored)
        return
    _check_cordons(image, after)
    if resource == ALL_BROKERS:
        before = image.configs.of_broker(rules.node_id)
        rules.configs.check_broker(before, before._replace(all_brokers=after))
    else:
        before = image.configs.of_broker(int(resource.name))
        rules.configs.check_broker(before, before._replace(one_broker=after))


def _check_cordons(image: Image, after: Mapping[str, str]) -> None:
    is_known = supports_cordoned_directories(image.features.metadata_version)
    if after.get(cordoned_log_dirs.name) and not is_known:
        raise _invalid(f"{cordoned_log_dirs.name} needs a newer {METADATA_VERSION}: upgrade it")


def _check_min_isr(resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Reject a change of the minimum ISR that eligible leader replicas forbid: the controller must
    always know the cluster's value."""
    if resource == ALL_BROKERS and MIN_ISR in before and MIN_ISR not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_ISR} of all brokers stays while eligible leader replicas are in use",
        )
    if _is_one_broker(resource) and before.get(MIN_ISR) != after.get(MIN_ISR):
        raise _fixed_min_isr()


def _is_one_broker(resource: Resource) -> bool:
    return resource.resource_type == ResourceType.BROKER and resource != ALL_BROKERS


def _fixed_min_isr() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_CONFIG,
        f"{MIN_ISR} of one broker cannot change while eligible leader replicas are in use",
    )


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
