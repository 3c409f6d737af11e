"""The row of an API: what serves it, which right it takes, and which listeners offer it.

    Api(topics.serve_create, resource=TOPIC, operation=CREATE, listeners=BOTH, is_forwarded=True)

The gates of broker and controller read the row, so a new API is one line of the table in
`handlers`:

- A right on the cluster is checked by the gate, before the handler runs. For a request that is
  forwarded, the gate is on the controller's node, in the context of the original client (KIP-590).
- A right on resources that the message names is checked by the handler, item by item, with
  `gate.allowed`. `also` has the other rights that the handler asks for.
- An API without a right is open to every client of its listeners.

Only a forwarded API may be in an envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.broker.api.error_response import error_response
from moldau.broker.decision.authorizer import Right
from moldau.protocol.acl_operations import AclOperation, AclResource

if TYPE_CHECKING:
    from moldau.broker.api.request import Handler
    from moldau.errors.codes import KafkaError
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response

Refuse: TypeAlias = "Callable[[Any, int, KafkaError], Response]"
"""Returns the response to a message, in a version, of which nothing is done."""

BROKER: Final = frozenset(("broker",))
CONTROLLER: Final = frozenset(("controller",))
BOTH: Final = BROKER | CONTROLLER


@dataclass(frozen=True, slots=True)
class Api:
    """One API; see the module."""

    serve: Handler | None
    """The handler on a broker's listener. None: only controllers offer the API."""
    resource: AclResource | None = None
    operation: AclOperation | None = None
    listeners: frozenset[str] = BROKER
    is_forwarded: bool = False
    refuse: Refuse | None = None
    """The form of a refused request. None: the response's `error_code` has it."""
    also: tuple[Right, ...] = ()
    off: KafkaError | None = None
    """The error of an API that Kafka always offers, and that is off here: every request gets it."""

    def __post_init__(self) -> None:
        assert (self.resource is None) == (self.operation is None), "a right is both"
        assert (self.serve is not None) == ("broker" in self.listeners)
        assert not self.is_forwarded or self.listeners == BOTH or self.serve is not None

    @property
    def right(self) -> Right | None:
        """The right that the request takes."""
        if self.resource is None or self.operation is None:
            return None
        return Right(self.resource, self.operation)

    @property
    def cluster_right(self) -> Right | None:
        """The right that a gate checks before the handler runs."""
        return self.right if self.resource is AclResource.CLUSTER else None

    def right_on(self, resource: AclResource) -> Right:
        """Return the right that a handler asks for on resources of a kind."""
        for right in (self.right, *self.also):
            if right is not None and right.resource is resource:
                return right
        raise AssertionError(f"the row has no right on {resource.name}")

    @classmethod
    def of_off(
        cls,
        error: KafkaError,
        right: tuple[AclResource, AclOperation] | None = None,
        listeners: frozenset[str] = BROKER,
        refuse: Refuse | None = None,
    ) -> Api:
        """Return the row of an API that is off. `right` is the one that it will take."""

        def serve(node: object, request: object) -> None:
            raise error

        resource, operation = right or (None, None)
        return cls(serve, resource, operation, listeners, refuse=refuse, off=error)

    def refusal(self, message: Message, version: int, error: KafkaError) -> Response | None:
        """Return the response to a refused request. None: the API has no place for the error."""
        if self.refuse is not None:
            return self.refuse(message, version, error)
        key = type(message).spec.key
        assert key is not None
        return error_response(key, version, error)
