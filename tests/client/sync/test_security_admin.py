"""`SecurityAdmin` and `QuotaAdmin` for threads, on a real broker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import moldau.client
import moldau.client.sync
from moldau.client.sync import (
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    Admin,
    ErrorCode,
    KafkaError,
    QuotaAdmin,
    QuotaEntity,
    ScramMechanism,
    ScramUser,
    SecurityAdmin,
)
from moldau.testing import SyncEmbeddedBroker

SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with (
        SyncEmbeddedBroker(SETTINGS) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        yield client


@pytest.mark.parametrize("name", ["SecurityAdmin", "QuotaAdmin", "TokenAdmin"])
def test_every_method_has_a_twin(name: str) -> None:
    mine, theirs = getattr(moldau.client.sync, name), getattr(moldau.client, name)
    assert methods_of(mine) == methods_of(theirs)


def methods_of(client: type[Any]) -> dict[str, str]:
    """The signatures of the public methods."""
    return {
        name: str(inspect.signature(each))
        for name, each in vars(client).items()
        if not name.startswith("_")
    }


def test_rules_come_and_go(admin: Admin) -> None:
    security = SecurityAdmin(admin)
    mine = Acl("User:alice", AclOperation.READ, "orders")
    other = Acl("User:bob", AclOperation.WRITE, "orders")
    assert security.create_acls([mine, other, mine]) == {mine: None, other: None}
    assert security.describe_acls(AclFilter(principal="User:alice")) == [mine]
    assert security.delete_acls(AclFilter(principal="User:alice")) == [mine]
    assert security.describe_acls() == [other]
    for wrong in (
        Acl("User:alice", AclOperation.READ, "orders", AclResource.CLUSTER),
        Acl("alice", AclOperation.READ, "orders"),
    ):
        (error,) = security.create_acls([wrong]).values()
        assert error is not None
        assert error.code is ErrorCode.INVALID_REQUEST


def test_users_come_and_go(admin: Admin) -> None:
    security = SecurityAdmin(admin)
    security.set_password("alice", "secret", mechanism=ScramMechanism.SHA_256, iterations=4096)
    security.set_password("alice", "secret")
    both = {ScramMechanism.SHA_256: 4096, ScramMechanism.SHA_512: 8192}
    assert security.describe_users() == [ScramUser("alice", both)]
    security.delete_user("alice", mechanism=ScramMechanism.SHA_256)
    assert security.describe_users() == [ScramUser("alice", {ScramMechanism.SHA_512: 8192})]
    security.delete_user("alice")
    assert security.describe_users() == []
    with pytest.raises(KafkaError) as caught:
        security.delete_user("alice")
    assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(ValueError, match="iterations"):
        security.set_password("alice", "secret", iterations=1)


def test_quotas_come_and_go(admin: Admin) -> None:
    quotas, alice = QuotaAdmin(admin), QuotaEntity(user="alice")
    quotas.alter(alice, {"producer_byte_rate": 1_000_000, "consumer_byte_rate": 5_000_000})
    quotas.alter(alice, {}, unset=["consumer_byte_rate"])
    assert quotas.describe() == {alice: {"producer_byte_rate": 1_000_000}}
    with pytest.raises(KafkaError):
        quotas.alter(alice, {"nothing": 1})
