"""Which rule decides about a request: StandardAuthorizer's order, on rules that were described.

    deciding(rules, "User:alice", "10.0.0.1", AclOperation.READ)

`rules` are those that count for the resource (`AclFilter(decides=True)`). A rule that denies goes
before one that allows. Super users and the default of the cluster are not in the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.protocol.acl_hosts import host_matches
from moldau.protocol.acl_operations import AclOperation as Op

if TYPE_CHECKING:
    from moldau.client.admin.security import Acl

_ANYONE: Final = "User:*"
IMPLYING: Final = {
    Op.DESCRIBE: (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER),
    Op.DESCRIBE_CONFIGS: (Op.ALTER_CONFIGS,),
}


def deciding(rules: Iterable[Acl], principal: str, host: str, operation: Op) -> Acl | None:
    """Return the rule that decides; None if there is none."""
    from moldau.protocol.acl_operations import AclPermission

    allowing = {operation, Op.ALL, *IMPLYING.get(operation, ())}
    denying = {operation, Op.ALL}
    allowed = None
    for rule in rules:
        if rule.principal not in (principal, _ANYONE) or not host_matches(rule.host, host):
            continue
        if rule.permission is AclPermission.DENY:
            if rule.operation in denying:
                return rule
        elif allowed is None and rule.operation in allowing:
            allowed = rule
    return allowed
