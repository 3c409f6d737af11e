"""What decides whether a client may do something, as the gates of broker and controller ask it.

Invariants: an authorizer is asked in the context of the original request, also for a request that
another broker forwarded. It answers at once, from memory. An authorizer with `allows_all` is never
asked, so a produce and a fetch cost nothing more where no rights are configured.

A request that a node makes for itself (`NODE`) is not authorized: no client has that principal.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

from moldau.broker.decision.context import NODE
from moldau.errors.codes import KafkaError
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.rights import REFUSALS, Right

if TYPE_CHECKING:
    from moldau.broker.decision.context import RequestContext

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""


class Authorizer(Protocol):
    """Knows the rights of clients."""

    @property
    def allows_all(self) -> bool:
        """Whether every client may do everything, so that it need not be asked."""
        ...

    @property
    def uses_rules(self) -> bool:
        """Whether it decides by the rules in the metadata log, so that clients may change them."""
        ...

    def allowed(
        self, context: RequestContext, right: Right, names: Collection[str]
    ) -> Collection[str]:
        """Return those of `names` on which the client has the right."""
        ...

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        """Whether the client has the right on some resource, whatever its name."""
        ...


class AllowAll:
    """The authorizer of a cluster without rights. Satisfies `Authorizer`."""

    allows_all: Final = True
    uses_rules: Final = False

    def allowed(
        self, context: RequestContext, right: Right, names: Collection[str]
    ) -> Collection[str]:
        return names

    def allowed_on_some(self, context: RequestContext, right: Right) -> bool:
        return True


ALLOW_ALL: Final = AllowAll()


def allowed_by(
    authorizer: Authorizer, context: RequestContext, right: Right, names: Collection[str]
) -> Collection[str]:
    """Return those of `names` on which the client of the request has the right."""
    if authorizer.allows_all or context.principal.type == NODE:
        return names
    return authorizer.allowed(context, right, names)


def refusal_of(right: Right) -> KafkaError:
    """Return the error of a client without that right. It names no resource that the client did not
    name."""
    return KafkaError(REFUSALS[right.resource])


def check_cluster(authorizer: Authorizer, context: RequestContext, *rights: Right) -> None:
    """Raise KafkaError unless the client has one of the rights on the cluster."""
    assert rights
    for right in rights:
        assert right.resource is AclResource.CLUSTER
        if allowed_by(authorizer, context, right, (CLUSTER_NAME,)):
            return
    raise refusal_of(rights[0])
