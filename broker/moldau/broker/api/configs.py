"""AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

The controller changes what the metadata log holds (`controller.config_changes`). This module first
handles some parts of a request itself:

- changes that contradict each other;
- settings of another broker, which only that broker can check;
- numbers of threads, which only this broker can check;
- levels of this broker's loggers, which are in no log.

The rest goes to the controller. The response has all resources in the order of the request.

Each resource succeeds or fails on its own. As in Kafka, the levels of loggers change before the
controller has answered for the other resources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias, cast

from moldau.broker.api.broker_loggers import alter_loggers
from moldau.broker.api.describe_configs import check_broker_name
from moldau.broker.api.forwarding import submit
from moldau.broker.controller.config_changes import (
    DONE,
    Change,
    Operation,
    RequestedChanges,
    Verdict,
    Verdicts,
    incremental_response,
    list_config_resources,
    replacing_response,
    wanted_of,
)
from moldau.broker.controller.configs import ALL_BROKERS, Resource, ResourceType
from moldau.broker.settings import connection_refusals, network, thread_refusals
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response


Answering: TypeAlias = "Callable[[Verdicts], Response]"


@dataclass(slots=True)
class Alteration:
    """A request in progress: all its resources in order, and the verdicts so far."""

    wanted: RequestedChanges
    verdicts: dict[Resource, Verdict] = field(default_factory=dict)

    def is_open(self, resource_type: int, name: str) -> bool:
        """Whether the controller must still decide on the resource."""
        return Resource(resource_type, name) not in self.verdicts

    def close(self, response: Response | KafkaError) -> None:
        """Store the controller's verdicts on all resources that were open."""
        if isinstance(response, KafkaError):
            for resource, _ in self.wanted:
                self.verdicts.setdefault(resource, Verdict.of(response))
            return
        assert isinstance(
            response, changing.IncrementalAlterConfigsResponse | replacing.AlterConfigsResponse
        )
        for each in response.responses:
            resource = Resource(each.resource_type, each.resource_name)
            self.verdicts[resource] = Verdict(each.error_code, each.error_message)

    def result(self) -> list[tuple[Resource, Verdict]]:
        """Return all verdicts in the order of the request. No resource may be open."""
        return [(resource, self.verdicts[resource]) for resource, _ in self.wanted]


def judge(wanted: RequestedChanges, node_id: int) -> Alteration:
    """Reject invalid resources: one that is named twice, one with a setting that is named twice or
    has no value, and a broker id that is not this broker's."""
    alteration = Alteration(wanted)
    times = Counter(resource for resource, _ in wanted)
    for resource, changes in wanted:
        try:
            if times[resource] > 1:
                raise _invalid("the request names the resource twice")
            _check_changes(changes)
            _check_broker(resource, node_id)
        except KafkaError as error:
            alteration.verdicts[resource] = Verdict.of(error)
    return alteration


def _check_changes(changes: Sequence[Change]) -> None:
    names = [each.name for each in changes]
    if len(set(names)) != len(names):
        raise _invalid("a setting is named twice")
    empty = [each.name for each in changes if each.value is None]
    if any(each.value is None and each.operation != Operation.DELETE for each in changes):
        raise _invalid(f"Null value not supported for {', '.join(empty)}")


def _check_broker(resource: Resource, node_id: int) -> None:
    is_broker = resource.resource_type == ResourceType.BROKER and resource != ALL_BROKERS
    if not is_broker and resource.resource_type != ResourceType.BROKER_LOGGER:
        return
    check_broker_name(resource.name, node_id)
    if is_broker and resource.name != str(node_id):
        # It would be stored under a name that the broker never looks up.
        raise _invalid(f"broker {node_id} is called {node_id}, not {resource.name!r}")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _judge_in_force(node: Node, alteration: Alteration, *, replaces: bool) -> None:
    """Reject values that only this broker can check: numbers of threads that it cannot change to,
    and connection limits that would let no client connect."""
    before = node.image.configs.of_broker(node.node_id)
    for resource, changes in alteration.wanted:
        is_open = resource not in alteration.verdicts
        if resource.resource_type != ResourceType.BROKER or not is_open:
            continue
        stored = {} if replaces else dict(node.image.configs.of(resource))
        for each in changes:
            if replaces or each.operation == Operation.SET:
                stored[each.name] = each.value or ""
            elif each.operation == Operation.DELETE:
                stored.pop(each.name, None)
        is_all = resource == ALL_BROKERS
        after = (stored, before.one_broker) if is_all else (before.all_brokers, stored)
        refusals = thread_refusals(node.settings, before, after)
        refusals += connection_refusals(node.settings, before, after)
        if refusals:
            alteration.verdicts[resource] = Verdict.of(_invalid("; ".join(refusals)))


def serve_list(node: Node, request: ApiRequest) -> None:
    """Answer from the image, at once."""
    message = cast(ListConfigResourcesRequest, request.decode())
    request.answer(list_config_resources(node.image, message, request.arrival.version))


def serve_incremental_alter(node: Node, request: ApiRequest) -> None:
    """Change the levels of loggers, and forward the rest to the controller."""
    message = cast(changing.IncrementalAlterConfigsRequest, request.decode())
    alteration = judge(wanted_of(message), node.node_id)
    _judge_in_force(node, alteration, replaces=False)
    _alter_loggers(node, alteration, validate_only=message.validate_only)
    message.resources = [
        each
        for each in message.resources
        if alteration.is_open(each.resource_type, each.resource_name)
    ]
    _pass_on(node, request, message, alteration, incremental_response)


def serve_alter(node: Node, request: ApiRequest) -> None:
    """Forward the request to the controller. The levels of loggers cannot be replaced as a whole,
    so a logger is not a valid resource here."""
    message = cast(replacing.AlterConfigsRequest, request.decode())
    alteration = judge(wanted_of(message), node.node_id)
    _judge_in_force(node, alteration, replaces=True)
    message.resources = [
        each
        for each in message.resources
        if alteration.is_open(each.resource_type, each.resource_name)
    ]
    _pass_on(node, request, message, alteration, replacing_response)


def _alter_loggers(node: Node, alteration: Alteration, *, validate_only: bool) -> None:
    for resource, changes in alteration.wanted:
        is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
        if not is_logger or resource in alteration.verdicts:
            continue
        try:
            if node.loggers is None:
                raise _invalid("this broker does not let the levels of its loggers be changed")
            alter_loggers(node.loggers, changes, validate_only=validate_only)
        except KafkaError as error:
            alteration.verdicts[resource] = Verdict.of(error)
        else:
            alteration.verdicts[resource] = DONE


def _pass_on(
    node: Node,
    request: ApiRequest,
    message: Message,
    alteration: Alteration,
    answering: Answering,
) -> None:
    def answered(response: Response | KafkaError) -> None:
        alteration.close(response)
        request.answer(answering(alteration.result()))

    if all(resource in alteration.verdicts for resource, _ in alteration.wanted):
        request.answer(answering(alteration.result()))
        return
    timeout_ms = node.settings[network.request_timeout_ms]
    submit(node, message, request.context, answered, timeout_ms=timeout_ms)
