"""The rules that decide about one resource, found without looking at the others.

Kafka's order of decision (StandardAuthorizer): the rules of a resource are the literal ones of its
name, those for `*`, and the prefixed ones whose name begins the resource's. One of them that
denies decides; else one that allows; else the client is denied if the resource has any rule, and
the default of the cluster counts if it has none.

Invariants: a decision costs a look-up for each length of a prefix in use, and not for each rule.
`changes` grows with each change, so decisions can be kept as long as it stays the same.

ALLOW of READ, WRITE, DELETE and ALTER implies DESCRIBE, and of ALTER_CONFIGS implies
DESCRIBE_CONFIGS. DENY implies nothing: a client that may not read may still describe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.broker.security.access.rule import ANY_USER, WILDCARD, Acl
from moldau.protocol.acl_hosts import host_matches
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource


class Question(NamedTuple):
    """May the principal do this, from this host?"""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResource
    resource_name: str


class Finding(NamedTuple):
    """What the rules say. Without a rule, `has_rules` tells whether the resource has others."""

    rule: Acl | None
    has_rules: bool

    @property
    def allows(self) -> bool:
        """Whether a rule allows."""
        return self.rule is not None and self.rule.permission_type == AclPermission.ALLOW


_DENYING: Final = {each: frozenset((each, AclOperation.ALL)) for each in AclOperation}
_ALLOWING: Final = {
    **_DENYING,
    AclOperation.DESCRIBE: _DENYING[AclOperation.DESCRIBE]
    | {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: _DENYING[AclOperation.DESCRIBE_CONFIGS]
    | {AclOperation.ALTER_CONFIGS},
}


class _Kind:
    """The rules about resources of one type, by name and principal."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, dict[str, dict[Acl, int]]] = {}
        self.prefixed: dict[str, dict[str, dict[Acl, int]]] = {}
        self.lengths: Counter[int] = Counter()
        """How many prefixes have each length."""

    def of(self, name: str) -> Iterator[dict[str, dict[Acl, int]]]:
        """Yield the rules that match a resource, by principal."""
        found = self.literal.get(name)
        if found is not None:
            yield found
        if name != WILDCARD:
            found = self.literal.get(WILDCARD)
            if found is not None:
                yield found
        for length in self.lengths:
            if length <= len(name):
                found = self.prefixed.get(name[:length])
                if found is not None:
                    yield found


class AclIndex:
    """Rules by what they are about. The same rule may be added more than once."""

    __slots__ = ("_kinds", "changes")

    def __init__(self) -> None:
        self.changes = 0
        self._kinds: dict[int, _Kind] = {}

    def add(self, acl: Acl) -> None:
        """Add a rule."""
        self.changes += 1
        kind = self._kinds.setdefault(acl.resource_type, _Kind())
        is_prefixed = acl.pattern_type == AclPattern.PREFIXED
        names = kind.prefixed if is_prefixed else kind.literal
        if is_prefixed and acl.resource_name not in names:
            kind.lengths[len(acl.resource_name)] += 1
        rules = names.setdefault(acl.resource_name, {}).setdefault(acl.principal, {})
        rules[acl] = rules.get(acl, 0) + 1

    def remove(self, acl: Acl) -> None:
        """Remove a rule that was added."""
        self.changes += 1
        kind = self._kinds[acl.resource_type]
        is_prefixed = acl.pattern_type == AclPattern.PREFIXED
        names = kind.prefixed if is_prefixed else kind.literal
        principals = names[acl.resource_name]
        rules = principals[acl.principal]
        rules[acl] -= 1
        if rules[acl]:
            return
        del rules[acl]
        if rules:
            return
        del principals[acl.principal]
        if principals:
            return
        del names[acl.resource_name]
        if is_prefixed:
            length = len(acl.resource_name)
            kind.lengths[length] -= 1
            if not kind.lengths[length]:
                del kind.lengths[length]

    def has(self, acl: Acl) -> bool:
        """Whether the rule was added."""
        kind = self._kinds.get(acl.resource_type)
        if kind is None:
            return False
        names = kind.prefixed if acl.pattern_type == AclPattern.PREFIXED else kind.literal
        return acl in names.get(acl.resource_name, {}).get(acl.principal, {})

    def decide(self, question: Question) -> Finding:
        """Return the rule that decides."""
        kind = self._kinds.get(question.resource_type)
        if kind is None:
            return Finding(None, has_rules=False)
        allowing, denying = _ALLOWING[question.operation], _DENYING[question.operation]
        allowed: Acl | None = None
        has_rules = False
        for principals in kind.of(question.resource_name):
            has_rules = True
            for acl in _matching(principals, question.principal, question.host):
                if acl.permission_type == AclPermission.ALLOW:
                    if allowed is None and acl.operation in allowing:
                        allowed = acl
                elif acl.operation in denying:
                    return Finding(acl, has_rules=True)
        return Finding(allowed, has_rules)

    def allows_some(
        self, principal: str, host: str, operation: AclOperation, resource_type: AclResource
    ) -> bool:
        """Whether the principal may do this on some resource of the type, whatever its name."""
        kind = self._kinds.get(resource_type)
        if kind is None:
            return False
        operations = _DENYING[operation]
        denied: dict[int, set[str]] = {AclPattern.LITERAL: set(), AclPattern.PREFIXED: set()}
        allowed: list[Acl] = []
        for names in (kind.literal, kind.prefixed):
            for principals in names.values():
                for acl in _matching(principals, principal, host):
                    if acl.operation not in operations:
                        continue
                    if acl.permission_type == AclPermission.ALLOW:
                        allowed.append(acl)
                    else:
                        denied[acl.pattern_type].add(acl.resource_name)
        if WILDCARD in denied[AclPattern.LITERAL]:
            return False
        return any(
            _is_wildcard(acl)
            or (
                (
                    acl.pattern_type == AclPattern.PREFIXED
                    or acl.resource_name not in denied[AclPattern.LITERAL]
                )
                and not any(
                    acl.resource_name.startswith(prefix) for prefix in denied[AclPattern.PREFIXED]
                )
            )
            for acl in allowed
        )


def _is_wildcard(acl: Acl) -> bool:
    return acl.resource_name == WILDCARD and acl.pattern_type == AclPattern.LITERAL


def _matching(principals: dict[str, dict[Acl, int]], principal: str, host: str) -> Iterator[Acl]:
    """Yield the rules for a principal and a host."""
    for name in (principal, ANY_USER):
        for acl in principals.get(name, ()):
            if host_matches(acl.host, host):
                yield acl
        if principal == ANY_USER:
            return
