"""`SecurityAdmin` for threads: describes and changes users and rules (ACLs).

with Admin(bootstrap_servers="localhost:9092") as admin:
    SecurityAdmin(admin).set_password("alice", "secret")
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.client.admin.security import ITERATIONS, Acl, AclFilter, ScramUser
from moldau.client.admin.security import SecurityAdmin as AsyncSecurityAdmin
from moldau.client.admin.sync.admin import Admin
from moldau.errors.codes import KafkaError
from moldau.protocol.scram import ScramMechanism


class SecurityAdmin:
    """Describes and changes users and rules, by a started admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    @property
    def _client(self) -> AsyncSecurityAdmin:
        return AsyncSecurityAdmin(self._admin._client)

    def describe_acls(self, chosen: AclFilter | None = None) -> list[Acl]:
        """Return the rules that the filter selects, or all."""
        return self._admin._call(self._client.describe_acls(chosen))

    def create_acls(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """Add rules. One that exists already stays as it is."""
        return self._admin._call(self._client.create_acls(acls))

    def delete_acls(self, chosen: AclFilter) -> list[Acl]:
        """Remove the rules that the filter selects, and return them."""
        return self._admin._call(self._client.delete_acls(chosen))

    def describe_users(self) -> list[ScramUser]:
        """Return all SCRAM users, sorted by name."""
        return self._admin._call(self._client.describe_users())

    def set_password(
        self,
        user: str,
        password: str,
        *,
        mechanism: ScramMechanism = ScramMechanism.SHA_512,
        iterations: int = ITERATIONS,
    ) -> None:
        """Set the password of a user for a mechanism; the user is new or has one already."""
        return self._admin._call(
            self._client.set_password(user, password, mechanism=mechanism, iterations=iterations)
        )

    def delete_user(self, user: str, *, mechanism: ScramMechanism | None = None) -> None:
        """Remove the credential of a user for a mechanism, or for all. Rules about it stay."""
        return self._admin._call(self._client.delete_user(user, mechanism=mechanism))
