"""The gates: whether the client of a request may do what it asks for.

    names = allowed(node, request, AclResource.TOPIC, [each.name for each in message.topics])

The rights are in the row of the API (`rights.table`), and the node's authorizer knows which
clients have them. Handlers on the hot path first ask `node.authorizer.allows_all`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from moldau.broker.api.acls import check_has_rules
from moldau.broker.api.produce_usual import outlined
from moldau.broker.api.rights.grants import WriteGrants
from moldau.broker.api.rights.guard import Client, GuardedMessage, GuardedRequest
from moldau.broker.api.rights.records import guard_produce
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.decision.authorizer import CLUSTER_NAME, allowed_by, check_cluster
from moldau.broker.decision.context import NODE
from moldau.protocol.acl_operations import AclResource
from moldau.protocol.declare import Response

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.api.request import ApiRequest, Handler
    from moldau.broker.api.rights.guard import Guard
    from moldau.broker.api.rights.table import ApiRights
    from moldau.broker.api.row import Api
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.broker.decision.context import RequestContext
    from moldau.protocol.declare import Request as Message


def allowed(
    node: Node, request: ApiRequest, resource: AclResource, names: Collection[str]
) -> Collection[str]:
    """Return those of `names` on which the request's client has the right that the API takes."""
    if node.authorizer.allows_all:
        return names
    right = RIGHTS[request.arrival.key].on(resource)
    return allowed_by(node.authorizer, request.context, right, names)


def is_allowed(node: Node, request: ApiRequest, resource: AclResource, name: str) -> bool:
    """Whether the request's client has the right that the API takes on one resource."""
    if node.authorizer.allows_all:
        return True
    return bool(allowed(node, request, resource, (name,)))


def may_on_cluster(node: Node, request: ApiRequest) -> bool:
    """Whether the client has the API's right on the whole cluster."""
    return is_allowed(node, request, AclResource.CLUSTER, CLUSTER_NAME)


def checked(row: Api, rights: ApiRights, *, is_guarded: bool = True) -> Handler:
    """Return the handler of a row behind the gate. It is the handler itself where the gate has
    nothing to check, so that a produce and a fetch pass it for nothing. `is_guarded`: the guard
    takes out the parts of the message that the client has no right to."""
    serve, guard, asked = row.serve, rights.guard, rights.cluster_rights
    assert serve is not None
    if is_guarded and guard is guard_produce:
        return _guarded_produce(serve)
    if is_guarded and guard is not None:
        return _guarded(serve, guard)
    if not asked or row.is_forwarded:
        return serve

    def pass_gate(node: Node, request: ApiRequest) -> None:
        if not node.authorizer.allows_all:
            check_cluster(node.authorizer, request.context, *asked)
        serve(node, request)

    return pass_gate


def _guarded(serve: Handler, guard: Guard) -> Handler:
    def pass_guard(node: Node, request: ApiRequest) -> None:
        client = Client(node.authorizer, request.context, node.image, node.settings)
        message = request.decode()
        found = guard(client, message, request.arrival.version)
        if isinstance(found, Response):
            request.answer(found)
        else:
            shown = message if found is None else found.message
            serve(node, GuardedRequest(request, shown, found))

    return pass_guard


def _guarded_produce(serve: Any) -> Handler:
    """Return the handler of Produce behind its guard. The handler takes the decoded message, and
    the connection keeps the topics that it may write to: the check must cost a producer nothing
    that counts."""

    def pass_guard(node: Node, request: ApiRequest) -> None:
        peer = request.connection
        grants: WriteGrants | None = peer.grants
        if grants is not None:
            usual = outlined(request.body, request.arrival.version)
            if usual is not None and grants.covers_all(node, peer.principal, usual[0].keys):
                serve(node, request, None, usual)
                return
        message: Any = request.decode()
        if grants is not None and grants.covers(node, peer.principal, message):
            serve(node, request, message)
            return
        client, version = (
            Client(node.authorizer, request.context, node.image),
            request.arrival.version,
        )
        found = guard_produce(client, message, version)
        if found is None:
            if node.authorizer.uses_rules:
                WriteGrants.note(node, request, message, version)
            serve(node, request, message)
        elif isinstance(found, Response):
            request.answer(found)
        else:
            serve(node, GuardedRequest(request, found.message, found))

    return pass_guard


def guarded_request(authorizer: Authorizer, image: Image, request: ApiRequest) -> ApiRequest:
    """Return the request without what its client has no right to, for an API whose guard refuses
    only parts."""
    if authorizer.allows_all:
        return request
    guard = RIGHTS[request.arrival.key].guard
    assert guard is not None
    client, message = Client(authorizer, request.context, image), request.decode()
    found = guard(client, message, request.arrival.version)
    assert not isinstance(found, Response)
    return GuardedRequest(request, message if found is None else found.message, found)


def guard_decision(
    message: Message, authorizer: Authorizer, context: RequestContext, image: Image
) -> GuardedMessage | Response | None:
    """Return the message without what its client has no right to, or the response if nothing is
    left of it; None if it may be decided as it is."""
    key = type(message).spec.key
    assert key is not None
    guard = RIGHTS[key].decision_guard if key in RIGHTS else None
    if guard is None or authorizer.allows_all or context.principal.type == NODE:
        return None
    return guard(Client(authorizer, context, image), message, context.version)


def check_decision(request: type[Message], authorizer: Authorizer, context: RequestContext) -> None:
    """Check a request at the controller. Raise KafkaError if its client lacks a right on the
    cluster, or if it is about rules and the authorizer has none."""
    if not authorizer.allows_all:
        key = request.spec.key
        assert key is not None
        rights = RIGHTS[key].cluster_rights
        if rights:
            check_cluster(authorizer, context, *rights)
    check_has_rules(authorizer, request)
