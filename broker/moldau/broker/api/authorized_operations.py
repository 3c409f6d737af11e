"""The operations that a client may perform on a topic, a group or the cluster (KIP-430)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.decision.authorizer import allowed_by
from moldau.protocol.acl_operations import AclOperation, AclResource, bits_of, operations_in
from moldau.protocol.rights import Right

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest

ALL_OF_TOPIC: Final = bits_of(
    (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)
ALL_OF_CLUSTER: Final = bits_of(
    (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    )
)
ALL_OF_GROUP: Final = bits_of(
    (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    )
)

_ALL: Final = {
    AclResource.TOPIC: ALL_OF_TOPIC,
    AclResource.CLUSTER: ALL_OF_CLUSTER,
    AclResource.GROUP: ALL_OF_GROUP,
}


def operations_on(node: Node, request: ApiRequest, resource: AclResource, name: str) -> int:
    """Return the bits of the operations that the request's client may perform on a resource."""
    every = _ALL[resource]
    authorizer = node.authorizer
    if authorizer.allows_all:
        return every
    return bits_of(
        each
        for each in operations_in(every) or ()
        if allowed_by(authorizer, request.context, Right(resource, each), (name,))
    )
