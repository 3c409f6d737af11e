"""What a guard is given and what it returns, and the request that a guarded handler gets.

Invariants: a guard changes no message: the same one may be decided again later. A refused part
never reaches a handler, so its response cannot tell whether the resource exists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from moldau.broker.decision.authorizer import CLUSTER_NAME, allowed_by
from moldau.broker.decision.context import NODE
from moldau.broker.settings.creation import auto_create_topics_enable
from moldau.protocol.acl_operations import AclOperation, AclResource, bits_of, operations_in
from moldau.protocol.rights import Right

if TYPE_CHECKING:
    from moldau.broker.api.request import ApiRequest, Header, Peer
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.broker.decision.context import RequestContext
    from moldau.config import Settings
    from moldau.ids import Uuid
    from moldau.protocol.declare import Request as Message
    from moldau.protocol.declare import Response

M = TypeVar("M", bound="Message")


class Client:
    """The client of one request, and what it may do."""

    __slots__ = ("_authorizer", "_context", "_image", "_settings")

    def __init__(
        self,
        authorizer: Authorizer,
        context: RequestContext,
        image: Image,
        settings: Settings | None = None,
    ) -> None:
        """`settings` are those of the broker, for guards with rules that depend on them."""
        self._authorizer = authorizer
        self._context = context
        self._image = image
        self._settings = settings

    @property
    def context(self) -> RequestContext:
        """The context of the request."""
        return self._context

    @property
    def creates_topics(self) -> bool:
        """Whether the broker creates missing topics that a client asks for."""
        return self._settings is None or self._settings[auto_create_topics_enable]

    def is_in_token(self, token_id: str) -> bool:
        """Whether the client owns the delegation token, asked for it, or may renew it."""
        token = self._image.credentials.tokens.get(token_id)
        return token is not None and str(self._context.principal) in token.principals

    def allowed(
        self, resource: AclResource, operation: AclOperation, names: Iterable[str]
    ) -> Collection[str]:
        """Return those of `names` on which the client may do this."""
        unique = dict.fromkeys(names)
        found = allowed_by(self._authorizer, self._context, Right(resource, operation), unique)
        return found if found is unique else frozenset(found)

    def has(self, right: Right, names: Collection[str]) -> bool:
        """Whether the client has the right on all of them: the usual case, and a quick one."""
        return len(allowed_by(self._authorizer, self._context, right, names)) == len(names)

    def may(self, resource: AclResource, operation: AclOperation, name: str) -> bool:
        """Whether the client may do this on one resource."""
        return bool(self.allowed(resource, operation, (name,)))

    def may_on_cluster(self, operation: AclOperation) -> bool:
        """Whether the client may do this on the cluster."""
        return self.may(AclResource.CLUSTER, operation, CLUSTER_NAME)

    def may_on_some(self, resource: AclResource, operation: AclOperation) -> bool:
        """Whether the client may do this on some resource of the type."""
        if self._context.principal.type == NODE:
            return True
        return self._authorizer.allowed_on_some(self._context, Right(resource, operation))

    def operations(self, resource: AclResource, every: int, name: str) -> int:
        """Return the bits of those operations in `every` that the client may perform (KIP-430)."""
        return bits_of(
            each for each in operations_in(every) or () if self.may(resource, each, name)
        )

    def name_of(self, topic_id: Uuid) -> str | None:
        """Return the name of the topic with that id; None if there is none."""
        topic = self._image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def id_of(self, name: str) -> Uuid | None:
        """Return the id of the topic of that name; None if there is none."""
        topic = self._image.topics.by_name(name)
        return None if topic is None else topic.topic_id


class GuardedMessage(NamedTuple):
    """A message without its refused parts, and what completes the response to it."""

    message: Message
    finish: Callable[[Any], None]
    closes_silent: bool = False
    """Whether a request without a response must end its connection: parts of it are refused."""


Guard: TypeAlias = "Callable[[Client, Any, int], GuardedMessage | Response | None]"
"""Takes the client, the message and its version. None: the message passes as it is. A response: the
handler is not called."""


def changed(message: M, **fields: object) -> M:
    """Return a copy of the message with other values in these fields."""
    twin = copy(message)
    for name, value in fields.items():
        setattr(twin, name, value)
    return twin


class GuardedRequest:
    """A request whose handler sees the guarded message. Satisfies `ApiRequest`. Mostly all of the
    message has passed, and a produce pays for each step here."""

    __slots__ = ("_guarded", "_message", "_request", "arrival", "connection")

    body: Any = None
    """The bytes have parts that the handler must not see."""

    def __init__(
        self, request: ApiRequest, message: Message, guarded: GuardedMessage | None = None
    ) -> None:
        """`guarded` completes the response, if parts of the message are refused."""
        self._request = request
        self._message = message
        self._guarded = guarded
        self.arrival: Header = request.arrival
        self.connection: Peer = request.connection

    @property
    def context(self) -> RequestContext:
        return self._request.context

    @property
    def size_bytes(self) -> int:
        return self._request.size_bytes

    @property
    def is_gone(self) -> bool:
        return self._request.is_gone

    def decode(self) -> Message:
        return self._message

    def keep(self) -> None:
        raise AssertionError("the guard has decoded the message already")

    def hold_order(self) -> None:
        self._request.hold_order()

    def release_order(self) -> None:
        self._request.release_order()

    def answer(self, response: Response) -> None:
        if self._guarded is not None:
            self._guarded.finish(response)
        self._request.answer(response)

    def answer_nothing(self) -> None:
        if self._guarded is not None and self._guarded.closes_silent:
            self.connection.close()
        else:
            self._request.answer_nothing()
