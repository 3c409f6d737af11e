"""A broker with rules, a user and a quota; the tests' own clients may do everything."""

from __future__ import annotations

from moldau.client import Admin
from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.client.admin.security import Acl, SecurityAdmin
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
RULES = [
    Acl("User:alice", AclOperation.READ, "ord", pattern=AclPattern.PREFIXED),
    Acl("User:alice", AclOperation.ALL, "orders-old", permission=AclPermission.DENY),
]


async def allow(servers: str) -> None:
    """Add the rules, the user `alice`, and a quota of the client id `shop`."""
    async with Admin(bootstrap_servers=servers) as admin:
        security = SecurityAdmin(admin)
        assert set((await security.create_acls(RULES)).values()) == {None}
        await security.set_password("alice", "secret")
        quota = {"producer_byte_rate": 1_000_000.0}
        await QuotaAdmin(admin).alter(QuotaEntity(user="*", client_id="shop"), quota)
