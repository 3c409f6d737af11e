"""One access control rule, and filters that select rules (KIP-11, KIP-290).

Invariants: a rule has no unknown field and no "any": those are values of filters. A filter matches
in Kafka's way: a null text matches everything; the pattern type MATCH selects the rules that would
decide about a resource of that name.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource

WILDCARD: Final = "*"
"""Any resource name, in a literal rule, and any host."""
ANY_USER: Final = "User:*"


class Acl(NamedTuple):
    """One rule: it allows or denies a principal an operation on resources, from a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __str__(self) -> str:
        permission, operation = AclPermission(self.permission_type), AclOperation(self.operation)
        where = "" if self.host == WILDCARD else f" from {self.host}"
        sign = "*" if self.pattern_type == AclPattern.PREFIXED else ""
        resource = AclResource(self.resource_type).name
        return (
            f"{permission.name} {self.principal} {operation.name} on "
            f"{resource} {self.resource_name}{sign}{where}"
        )


class FilterFields(Protocol):
    """The fields of a filter in a request: DescribeAcls, or one of DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Selects rules."""

    resource_type: int = AclResource.ANY
    resource_name: str | None = None
    pattern_type: int = AclPattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = AclPermission.ANY

    @classmethod
    def of(cls, fields: FilterFields) -> AclFilter:
        """Return the filter of a request."""
        return cls(
            AclResource(fields.resource_type_filter),
            fields.resource_name_filter,
            AclPattern(fields.pattern_type_filter),
            fields.principal_filter,
            fields.host_filter,
            AclOperation(fields.operation),
            AclPermission(fields.permission_type),
        )

    @property
    def has_unknown_pattern(self) -> bool:
        """Whether its resource type or pattern type is newer than this code."""
        return not self.resource_type or not self.pattern_type

    @property
    def has_unknown_entry(self) -> bool:
        """Whether its operation or permission is newer than this code."""
        return not self.operation or not self.permission_type

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects the rule."""
        return (
            self.resource_type in (AclResource.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermission.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (AclPattern.ANY, AclPattern.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == acl.resource_name:
            return True
        if self.pattern_type != AclPattern.MATCH:
            return False
        if acl.pattern_type == AclPattern.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
