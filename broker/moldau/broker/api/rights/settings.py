"""Guards of requests about settings and the cluster: DescribeConfigs, AlterConfigs,
IncrementalAlterConfigs, DescribeCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.rights.guard import Guarded, changed
from moldau.broker.api.rights.topics import cluster_operations
from moldau.broker.controller.configs import ResourceType
from moldau.broker.decision.authorizer import CLUSTER_NAME, REFUSALS
from moldau.protocol.acl_operations import NOT_ASKED, AclOperation, AclResource
from moldau.protocol.messages import alter_configs as replacing
from moldau.protocol.messages import incremental_alter_configs as changing
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from moldau.broker.api.rights.guard import Client
    from moldau.errors.codes import ErrorCode
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


def guard_describe(client: Client, message: DescribeConfigsRequest, version: int) -> Guarded | None:
    """DESCRIBE_CONFIGS on the topic, the group or the cluster."""
    left, refused = [], []
    for each in message.resources:
        kind, name = each.resource_type, each.resource_name
        code = _refusal(client, AclOperation.DESCRIBE_CONFIGS, kind, name)
        if code is None:
            left.append(each)
            continue
        refused.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=_REASON,
                resource_type=kind,
                resource_name=name,
                configs=[],
            )
        )
    if not refused:
        return None

    def finish(response: DescribeConfigsResponse) -> None:
        response.results = [*response.results, *refused]

    return Guarded(changed(message, resources=left), finish)


def guard_alter(
    client: Client,
    message: replacing.AlterConfigsRequest | changing.IncrementalAlterConfigsRequest,
    version: int,
) -> Guarded | None:
    """ALTER_CONFIGS on the topic, the group or the cluster."""
    is_incremental = isinstance(message, changing.IncrementalAlterConfigsRequest)
    rows = changing if is_incremental else replacing
    left: list[Any] = []
    refused: list[Any] = []
    resources: list[Any] = list(message.resources)
    order = {(each.resource_type, each.resource_name): n for n, each in enumerate(resources)}
    for each in resources:
        kind, name = each.resource_type, each.resource_name
        code = _refusal(client, AclOperation.ALTER_CONFIGS, kind, name)
        if code is None:
            left.append(each)
            continue
        refused.append(
            rows.AlterConfigsResourceResponse(
                error_code=code, error_message=_REASON, resource_type=kind, resource_name=name
            )
        )
    if not refused:
        return None

    def finish(response: Any) -> None:
        found = [*response.responses, *refused]
        found.sort(key=lambda each: order[each.resource_type, each.resource_name])
        response.responses = found

    return Guarded(changed(message, resources=left), finish)


def guard_cluster(client: Client, message: DescribeClusterRequest, version: int) -> Guarded:
    """The operations on the cluster that the client may perform."""

    def finish(response: DescribeClusterResponse) -> None:
        if response.cluster_authorized_operations != NOT_ASKED:
            response.cluster_authorized_operations = cluster_operations(client)

    return Guarded(message, finish)
