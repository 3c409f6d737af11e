"""The words for access rules: principals, operations and resources, as `moldau acl` takes them.

A resource of a rule is TYPE:NAME; a `*` at the end of a name means every name that begins so, and
`*` alone every name. Elsewhere it is a character of the name, which no topic has. A user without a
type is `User:...`.
"""

from __future__ import annotations

import re
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
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")


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
    """Return the type, the name and the pattern of a rule's resource."""
    from moldau.protocol.acl_operations import AclPattern

    kind, name = _type_and_name(text)
    if name.endswith("*") and name != "*":
        return kind, name[:-1], AclPattern.PREFIXED
    return kind, name, AclPattern.LITERAL


def whole_name_of(text: str) -> tuple[AclResource, str]:
    """Return the type and the name of one resource, in which a `*` is a character."""
    kind, name = _type_and_name(text)
    check_topic(kind, name, text, "this is about one topic, by its whole name")
    return kind, name


def check_topic(kind: AclResource, name: str, text: str, advice: str) -> None:
    """Raise UsageError if no topic can have the name, or begin with it: `text` has no effect."""
    if kind.name == "TOPIC" and not _TOPIC.fullmatch(name):
        raise UsageError(f"no topic has the name in {text!r}: {advice}")


def _type_and_name(text: str) -> tuple[AclResource, str]:
    from moldau.protocol.acl_operations import AclResource

    kind, colon, name = text.partition(":")
    if kind == "cluster" and not colon:
        name = _CLUSTER
    if kind not in _TYPES or not name:
        raise UsageError(f"{text!r} is not TYPE:NAME; the types are {', '.join(_TYPES)}")
    return AclResource[_TYPES[kind]], name


def named(rule: Acl) -> str:
    from moldau.protocol.acl_operations import AclPattern

    kind = rule.type.name.lower().replace("_", "-")
    return f"{kind}:{rule.name}{'*' if rule.pattern is AclPattern.PREFIXED else ''}"


def told(rule: Acl) -> str:
    where = "" if rule.host == "*" else f" from {rule.host}"
    return f"{rule.permission.name} {rule.principal} {rule.operation.name} {named(rule)}{where}"
