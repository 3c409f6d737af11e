"""The words for access rules: principals, operations and resources, as `moldau acl` takes them.

A resource is TYPE:NAME; a `*` at the end of a name means every name that begins so, and `*` alone
every name. A user without a type is `User:...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError

if TYPE_CHECKING:
    from moldau.client.admin.security import Acl
    from moldau.protocol.acl_operations import AclOperation, AclPattern, AclResource

_TYPES: Final = {
    "topic": "TOPIC",
    "group": "GROUP",
    "cluster": "CLUSTER",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user": "USER",
}
_CLUSTER: Final = "kafka-cluster"


def principal_of(text: str) -> str:
    return text if ":" in text else f"User:{text}"


def operation_of(text: str) -> AclOperation:
    from moldau.protocol.acl_operations import AclOperation

    name = text.upper().replace("-", "_")
    known = [each.name for each in AclOperation if each > AclOperation.ANY]
    if name not in known:
        raise UsageError(f"{text!r} is no operation; there are {', '.join(known)}")
    return AclOperation[name]


def resource_of(text: str) -> tuple[AclResource, str, AclPattern]:
    from moldau.protocol.acl_operations import AclPattern, AclResource

    kind, colon, name = text.partition(":")
    if kind == "cluster" and not colon:
        name = _CLUSTER
    if kind not in _TYPES or not name:
        raise UsageError(f"{text!r} is not TYPE:NAME; the types are {', '.join(_TYPES)}")
    pattern = AclPattern.LITERAL
    if name.endswith("*") and name != "*":
        pattern, name = AclPattern.PREFIXED, name[:-1]
    return AclResource[_TYPES[kind]], name, pattern


def named(rule: Acl) -> str:
    from moldau.protocol.acl_operations import AclPattern

    kind = rule.type.name.lower().replace("_", "-")
    return f"{kind}:{rule.name}{'*' if rule.pattern is AclPattern.PREFIXED else ''}"


def told(rule: Acl) -> str:
    where = "" if rule.host == "*" else f" from {rule.host}"
    return f"{rule.permission.name} {rule.principal} {rule.operation.name} {named(rule)}{where}"
