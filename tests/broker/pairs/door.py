"""How the clients of a case reach a cluster: plainly, or as a user over TLS with few rights."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Final

from moldau.client import load_settings
from moldau.client.admin.security import Acl
from moldau.client.admin.sync.security import SecurityAdmin
from moldau.client.sync import Admin
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.operations.acls import operation_of, principal_of, resource_of
from moldau.protocol.acl_operations import AclPermission
from moldau.protocol.scram import SCRAM_MECHANISMS
from moldau.testing import Cluster
from tests.broker.pairs.shards import ShardedHost

PREFIX: Final = "case-"
"""What the names of topics, groups and transactional ids begin with."""
_USER: Final = "copier"
_PASSWORD: Final = "the copier's password"  # noqa: S105 - of a cluster that lives for a test
_MECHANISM: Final = "SCRAM-SHA-512"
_RIGHTS: Final = (
    *((each, f"topic:{PREFIX}*") for each in ("READ", "WRITE", "DESCRIBE")),
    ("READ", f"group:{PREFIX}*"),
    *((each, f"transactional-id:{PREFIX}*") for each in ("WRITE", "DESCRIBE")),
)


@dataclass(frozen=True, slots=True)
class Door:
    """The settings of each client. `authority` is the file with the authority's certificate, None
    for a plain cluster."""

    servers: str
    authority: str | None = None

    def ours(self) -> dict[str, str]:
        """Settings by Kafka's names, for our client and Java's."""
        if self.authority is None:
            return {"bootstrap.servers": self.servers}
        login = LoginModule("SCRAM", {"username": _USER, "password": _PASSWORD})
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": write_jaas(login),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority,
        }

    def login(self) -> dict[str, str] | None:
        """The parts of a login, for programs in other languages; None for a plain cluster."""
        if self.authority is None:
            return None
        return {"authority": self.authority, "user": _USER, "password": _PASSWORD}

    def librdkafka(self) -> dict[str, Any]:
        """Settings by librdkafka's names."""
        if self.authority is None:
            return {"bootstrap.servers": self.servers}
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": _USER,
            "sasl.password": _PASSWORD,
            "ssl.ca.location": self.authority,
        }

    def aiokafka(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""
        if self.authority is None:
            return {"bootstrap_servers": self.servers}
        return {
            "bootstrap_servers": self.servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": _MECHANISM,
            "sasl_plain_username": _USER,
            "sasl_plain_password": _PASSWORD,
            "ssl_context": ssl.create_default_context(cafile=self.authority),
        }


def admin_settings(cluster: Cluster | ShardedHost) -> dict[str, str]:
    """The settings of a client that may do everything."""
    if cluster.security is None:
        return {"bootstrap.servers": cluster.bootstrap_servers}
    return dict(load_settings(cluster.security.client_path))


def opened_door(cluster: Cluster | ShardedHost) -> Door:
    """Let the user in, with the rights of a copier, and return the way."""
    if cluster.security is None:
        return Door(cluster.bootstrap_servers)
    with Admin(admin_settings(cluster)) as admin:
        _add_user(admin)
    return Door(cluster.bootstrap_servers, f"{cluster.security.folder}/ca.pem")


def _add_user(admin: Admin) -> None:
    security = SecurityAdmin(admin)
    security.set_password(_USER, _PASSWORD, mechanism=SCRAM_MECHANISMS[_MECHANISM])
    rules = []
    for operation, resource in _RIGHTS:
        kind, name, pattern = resource_of(resource)
        principal = principal_of(_USER)
        rule = (principal, operation_of(operation), name, kind, pattern, AclPermission.ALLOW, "*")
        rules.append(Acl(*rule))
    for error in security.create_acls(rules).values():
        assert error is None, error
