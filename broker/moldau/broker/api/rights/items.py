"""The guard of an API whose client has a right to each item of the request, or has not.

The declaration of the request says which of its fields names the items (`Entity`), that of the
response has the rows of those that are refused (`refused`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.api.refused import element_of, refused_rows, unique
from moldau.broker.api.rights.guard import GuardedMessage, changed
from moldau.deferred import dataclass
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages import response_class
from moldau.protocol.rights import REFUSALS, Right
from moldau.protocol.spec import ArrayOf, FieldSpec, StructSpec
from moldau.protocol.types import Entity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moldau.broker.api.rights.guard import Client
    from moldau.protocol.declare import Request

RESOURCES: Final = {
    Entity.TOPIC_NAME: AclResource.TOPIC,
    Entity.GROUP_ID: AclResource.GROUP,
    Entity.TRANSACTIONAL_ID: AclResource.TRANSACTIONAL_ID,
}


def names_of(client: Client, items: Iterable[Any], resource: AclResource) -> list[str | None]:
    """Return the resource that each item names. None for a topic id that does not exist."""
    names = []
    for each in items:
        name = each if isinstance(each, str) else getattr(each, _naming(type(each).spec, resource))
        if not name and hasattr(each, "topic_id"):
            name = client.name_of(each.topic_id)
        names.append(name)
    return names


def _naming(spec: StructSpec, resource: AclResource) -> str:
    return next(each.name for each in spec.fields if _names(each, resource))


def _names(field: FieldSpec, resource: AclResource) -> bool:
    return field.entity is not None and RESOURCES.get(field.entity) is resource


@dataclass(frozen=True, slots=True)
class ItemGuard:
    """Takes out the items that the client has no right to, and answers them with the error of a
    lacking right. Satisfies `Guard`."""

    right: Right
    cluster: AclOperation | None = None
    """The operation on the cluster that allows all items."""
    is_first: bool = False
    """Whether the refused rows come before the others."""
    is_once: bool = False
    """Whether an item that is named twice has one row."""

    def __call__(self, client: Client, message: Request, version: int) -> GuardedMessage | None:
        if self.cluster is not None and client.may_on_cluster(self.cluster):
            return None
        asked = self._list(type(message).spec.fields, version)
        left, out = self.divide(client, getattr(message, asked.name))
        if not out:
            return None
        key = type(message).spec.key
        assert key is not None
        response = response_class(key)
        answered = self._list(response.spec.fields, version)
        row = element_of(response, answered.name)
        rows = refused_rows(row, out, REFUSALS[self.right.resource])
        refused = unique(rows) if self.is_once else rows

        def finish(answer: Any) -> None:
            if getattr(answer, "error_code", 0):
                return
            found = getattr(answer, answered.name)
            both = [*refused, *found] if self.is_first else [*found, *refused]
            setattr(answer, answered.name, both)

        return GuardedMessage(changed(message, **{asked.name: left}), finish)

    def divide(self, client: Client, items: Collection[Any]) -> tuple[list[Any], list[Any]]:
        """Return the items that the client has the right to, and the others. An item that names
        nothing that exists is for the handler."""
        resource = self.right.resource
        names = names_of(client, items, resource)
        allowed = client.allowed(resource, self.right.operation, (each for each in names if each))
        left: list[Any] = []
        out: list[Any] = []
        for name, each in zip(names, items, strict=True):
            (out if name and name not in allowed else left).append(each)
        return left, out

    def _list(self, fields: tuple[FieldSpec, ...], version: int) -> FieldSpec:
        """Return the field of the items: of a request, or of the rows of a response."""
        resource = self.right.resource
        for field in fields:
            if isinstance(field.type, ArrayOf) and field.is_present(version):
                element = field.type.element
                if _names(field, resource) or (
                    isinstance(element, StructSpec)
                    and any(_names(each, resource) for each in element.fields)
                ):
                    return field
        raise AssertionError(f"no field of items names a {resource.name}")
