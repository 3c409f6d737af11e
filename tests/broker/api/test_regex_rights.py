"""A subscription by a regular expression finds only topics that the member's user may describe."""

from __future__ import annotations

import pytest

from moldau.client.sync import (
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    Admin,
    Consumer,
    NewTopic,
    SecurityAdmin,
)
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
WITHIN_S = 120.0


def settings(port: int) -> dict[str, str]:
    """Logins on one listener, and an administrator without one on the other."""
    users = f'{PLAIN} required user_alice="a" user_bob="b";'
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port},"
        "CONTROLLER://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
        "authorizer.class.name": "standard",
        "super.users": "User:ANONYMOUS",
    }


def rules(user: str, prefix: str) -> list[Acl]:
    name, prefixed = f"User:{user}", AclPattern.PREFIXED
    return [
        Acl(name, AclOperation.READ, prefix, pattern=prefixed),
        Acl(name, AclOperation.READ, f"{user}-group", AclResource.GROUP),
    ]


def test_two_users_find_other_topics_by_the_same_expression() -> None:
    (port,) = free_ports(1)
    with SyncEmbeddedBroker(settings(port)) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"{each}-orders", 1, 1) for each in ("a", "b", "c")])
            answers = SecurityAdmin(admin).create_acls([*rules("alice", "a"), *rules("bob", "b")])
            assert set(answers.values()) == {None}
        shared = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "group.protocol": "consumer",
        }
        logins = {
            user: {
                **shared,
                "group.id": f"{user}-group",
                "sasl.username": user,
                "sasl.password": user[0],
            }
            for user in ("alice", "bob")
        }
        everyone = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.protocol": "consumer",
            "group.id": "admin-group",
        }
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for given, found in (
                (logins["alice"], {"a-orders"}),
                (logins["bob"], {"b-orders"}),
                (everyone, {"a-orders", "b-orders", "c-orders"}),
            ):
                with Consumer(given) as consumer:
                    consumer.subscribe(pattern="[abc]-.*")
                    eventually(lambda: consumer.poll(0.2) or consumer.assignment, within_s=WITHIN_S)
                    assert assigned(admin, given["group.id"]) == found


def assigned(admin: Admin, group: str) -> set[str]:
    """The topics that the coordinator gave to the only member."""
    (member,) = admin.describe_group(group).members
    return {each.topic for each in member.target}
