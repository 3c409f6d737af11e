"""Guards of requests about settings and the cluster: DescribeConfigs, AlterConfigs,
IncrementalAlterConfigs, DescribeCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.refused import refused_rows
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.broker.api.rights.topics import cluster_operations
from moldau.broker.controller.configs import ResourceType
from moldau.broker.decision.authorizer import CLUSTER_NAME
from moldau.protocol.acl_operations import NOT_ASKED, AclOperation, AclResource
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from moldau.protocol.rights import REFUSALS

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client
    from moldau.errors.codes import ErrorCode
    from moldau.protocol.declare import Struct
    from moldau.protocol.messages.describe_cluster import (
        DescribeClusterRequest,
        DescribeClusterResponse,
    )

_OWNERS: Final = {
    ResourceType.TOPIC: AclResource.TOPIC,
    ResourceType.GROUP: AclResource.GROUP,
    ResourceType.BROKER: AclResource.CLUSTER,
    ResourceType.BROKER_LOGGER: AclResource.CLUSTER,
    ResourceType.CLIENT_METRICS: AclResource.CLUSTER,
}
"""The kind of resource whose right counts for settings of a kind."""
_REASON: Final = "Authorization failed."


def _refusal(client: Client, operation: AclOperation, kind: int, name: str) -> ErrorCode | None:
    """Return the error of settings that the client has no right to; None if it has, or if there are
    no such settings."""
    try:
        owner = _OWNERS[ResourceType(kind)]
    except (KeyError, ValueError):
        return None
    owned = CLUSTER_NAME if owner is AclResource.CLUSTER else name
    return None if client.may(owner, operation, owned) else REFUSALS[owner]


def guard_describe(
    client: Client, message: DescribeConfigsRequest, version: int
) -> GuardedMessage | None:
    """DESCRIBE_CONFIGS on the topic, the group or the cluster."""
    left, refused = _divide(client, AclOperation.DESCRIBE_CONFIGS, message, DescribeConfigsResult)
    if not refused:
        return None

    def finish(response: DescribeConfigsResponse) -> None:
        response.results = [*response.results, *refused]

    return GuardedMessage(changed(message, resources=left), finish)


def guard_alter(
    client: Client,
    message: replacing.AlterConfigsRequest | changing.IncrementalAlterConfigsRequest,
    version: int,
) -> GuardedMessage | None:
    """ALTER_CONFIGS on the topic, the group or the cluster."""
    is_incremental = isinstance(message, changing.IncrementalAlterConfigsRequest)
    row = (changing if is_incremental else replacing).AlterConfigsResourceResponse
    left, refused = _divide(client, AclOperation.ALTER_CONFIGS, message, row)
    if not refused:
        return None
    names = [(each.resource_type, each.resource_name) for each in message.resources]
    order = {name: number for number, name in enumerate(names)}

    def finish(response: Any) -> None:
        found = [*response.responses, *refused]
        found.sort(key=lambda each: order[each.resource_type, each.resource_name])
        response.responses = found

    return GuardedMessage(changed(message, resources=left), finish)


def _divide(
    client: Client, operation: AclOperation, message: Any, row: type[Struct]
) -> tuple[list[Any], list[Any]]:
    """Return the resources that the client has the right to, and the rows of the others."""
    left: list[Any] = []
    refused: list[Any] = []
    for each in message.resources:
        code = _refusal(client, operation, each.resource_type, each.resource_name)
        if code is None:
            left.append(each)
        else:
            refused += refused_rows(row, [each], code, _REASON)
    return left, refused


def guard_cluster(client: Client, message: DescribeClusterRequest, version: int) -> GuardedMessage:
    """The operations on the cluster that the client may perform."""

    def finish(response: DescribeClusterResponse) -> None:
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = cluster_operations(client)

    return GuardedMessage(message, finish)
