"""Users and rights in the cluster: SCRAM users, and the rules (ACLs) that allow and deny.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        security = SecurityAdmin(admin)
        await security.set_password("alice", "secret")
        await security.create_acls([Acl("User:alice", AclOperation.READ, "orders")])

Invariant: a password does not leave this process. Its salted form is sent, from which the cluster
derives the keys that it keeps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from moldau.client.admin.requests import error_of, value_of
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError, raise_for
from moldau.link.cluster import CONTROLLER
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages import alter_user_scram_credentials as altering
from moldau.protocol.messages import create_acls as creating
from moldau.protocol.messages import delete_acls as deleting
from moldau.protocol.messages import describe_acls as describing
from moldau.protocol.messages import describe_user_scram_credentials as describing_users
from moldau.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    salted_password,
)

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

ITERATIONS: Final = 8192
"""The iterations of a new credential: what each guess of a password costs."""
_ANY: Final = 1


@dataclass(frozen=True, slots=True)
class Acl:
    """A rule: it allows or denies a principal an operation on resources. The literal name `*` means
    every resource of the type, the host `*` every host."""

    principal: str
    operation: AclOperation
    name: str
    type: AclResource = AclResource.TOPIC
    pattern: AclPattern = AclPattern.LITERAL
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects rules; a field that is None matches everything."""

    principal: str | None = None
    operation: AclOperation | None = None
    name: str | None = None
    type: AclResource | None = None
    pattern: AclPattern | None = None
    permission: AclPermission | None = None
    host: str | None = None
    decides: bool = False
    """Select all rules that count for the resource `name`: also prefixed ones, and those for `*`.
    `pattern` does not count then."""

    @classmethod
    def exactly(cls, rule: Acl) -> Self:
        """Return the filter that selects this rule and no other."""
        return cls(
            *(rule.principal, rule.operation, rule.name, rule.type, rule.pattern),
            *(rule.permission, rule.host),
        )


class ScramUser(NamedTuple):
    """A user, and the iterations of the credential for each mechanism."""

    name: str
    iterations: dict[ScramMechanism, int]


class PartlyChanged(MoldauError):
    """A change of a user is made for some mechanisms, and not for all that were asked."""


async def in_turn(
    user: str,
    mechanisms: Sequence[ScramMechanism],
    change: Callable[[ScramMechanism], Awaitable[None]],
) -> None:
    """Change a user's credential for one mechanism after the other: a cluster refuses a request
    that names a user twice. Raise PartlyChanged if one fails after another is done."""
    for index, each in enumerate(mechanisms):
        try:
            await change(each)
        except MoldauError as error:
            if index == 0:
                raise
            raise PartlyChanged(
                "the change is made for some mechanisms and not for all: ask for it again",
                user=user,
                made=", ".join(one.sasl_name for one in mechanisms[:index]),
                failed=each.sasl_name,
                why=str(error),
            ) from error


class SecurityAdmin:
    """Describes and changes users and rules, through an admin client that was started."""

    def __init__(self, admin: Admin) -> None:
        self._requests = admin._requests

    async def describe_acls(self, chosen: AclFilter | None = None) -> list[Acl]:
        """Return the rules that the filter selects, or all."""
        fields = _filter_fields(chosen or AclFilter())
        request = describing.DescribeAclsRequest(**fields)  # type: ignore[arg-type]
        answer = await self._requests.ask(request, describing.DescribeAclsResponse)
        raise_for("DescribeAcls", answer.error_code, answer.error_message or "")
        return [_rule(each, resource) for resource in answer.resources for each in resource.acls]

    async def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """Add rules. One that exists already stays as it is."""
        wanted = list(dict.fromkeys(acls))
        request = creating.CreateAclsRequest(
            creations=[
                creating.AclCreation(
                    resource_type=each.type,
                    resource_name=each.name,
                    resource_pattern_type=each.pattern,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in wanted
            ]
        )
        answer = await self._requests.ask(request, creating.CreateAclsResponse, CONTROLLER)
        errors = (
            error_of("CreateAcls", each.error_code, each.error_message) for each in answer.results
        )
        return dict(zip(wanted, errors, strict=True))

    async def delete_acls(self, chosen: AclFilter) -> list[Acl]:
        """Remove the rules that the filter selects, and return them."""
        fields = _filter_fields(chosen)
        request = deleting.DeleteAclsRequest(
            filters=[deleting.DeleteAclsFilter(**fields)]  # type: ignore[arg-type]
        )
        answer = await self._requests.ask(request, deleting.DeleteAclsResponse, CONTROLLER)
        (found,) = answer.filter_results
        raise_for("DeleteAcls", found.error_code, found.error_message or "")
        return [_rule(each, each) for each in found.matching_acls]

    async def describe_users(self) -> list[ScramUser]:
        """Return all SCRAM users, sorted by name."""
        request = describing_users.DescribeUserScramCredentialsRequest(users=None)
        response = describing_users.DescribeUserScramCredentialsResponse
        answer = await self._requests.ask(request, response)
        raise_for("DescribeUserScramCredentials", answer.error_code, answer.error_message or "")
        users = [
            ScramUser(
                each.user,
                {ScramMechanism(info.mechanism): info.iterations for info in each.credential_infos},
            )
            for each in answer.results
        ]
        return sorted(users)

    async def set_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SHA_512,
        iterations: int = ITERATIONS,
    ) -> None:
        """Set the password of a user for a mechanism; the user is new or has one already."""
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ValueError(f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}: {iterations}")
        if not password:
            raise ValueError("a password is not empty")
        salt = self._requests.cluster.runtime.random.randbytes(SALT_BYTES)
        upsertion = altering.ScramCredentialUpsertion(
            name=user,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(mechanism, password, salt, iterations),
        )
        await self._alter(
            altering.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        )

    async def delete_user(self, user: str, *, mechanism: ScramMechanism | None = None) -> None:
        """Remove the credential of a user for a mechanism, or for all. Rules about it stay."""
        mechanisms = [mechanism] if mechanism is not None else await self._mechanisms_of(user)
        await in_turn(user, mechanisms, lambda one: self._delete(user, one))

    async def _delete(self, user: str, mechanism: ScramMechanism) -> None:
        deletion = altering.ScramCredentialDeletion(name=user, mechanism=mechanism)
        await self._alter(
            altering.AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
        )

    async def _mechanisms_of(self, user: str) -> list[ScramMechanism]:
        named = [describing_users.UserName(name=user)]
        request = describing_users.DescribeUserScramCredentialsRequest(users=named)
        response = describing_users.DescribeUserScramCredentialsResponse
        (found,) = (await self._requests.ask(request, response)).results
        raise_for("DescribeUserScramCredentials", found.error_code, found.error_message or "")
        return [ScramMechanism(each.mechanism) for each in found.credential_infos]

    async def _alter(self, request: altering.AlterUserScramCredentialsRequest) -> None:
        response = altering.AlterUserScramCredentialsResponse
        (found,) = (await self._requests.ask(request, response, CONTROLLER)).results
        value_of(error_of("AlterUserScramCredentials", found.error_code, found.error_message))


def _rule(entry: Any, resource: Any) -> Acl:
    return Acl(
        entry.principal,
        AclOperation(entry.operation),
        resource.resource_name,
        AclResource(resource.resource_type),
        AclPattern(resource.pattern_type),
        AclPermission(entry.permission_type),
        entry.host,
    )


def _filter_fields(chosen: AclFilter) -> dict[str, object]:
    return {
        "resource_type_filter": chosen.type or _ANY,
        "resource_name_filter": chosen.name,
        "pattern_type_filter": AclPattern.MATCH if chosen.decides else chosen.pattern or _ANY,
        "principal_filter": chosen.principal,
        "host_filter": chosen.host,
        "operation": chosen.operation or _ANY,
        "permission_type": chosen.permission or _ANY,
    }
