"""The hosts of access rules: addresses, networks, and what is neither (Kafka 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.differential.talk import Talk
from tests.protocol.network_table import MALFORMED, NETWORKS

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def rules(hosts: Sequence[str]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=AclResource.TOPIC,
                resource_name="t",
                resource_pattern_type=AclPattern.LITERAL,
                principal="User:a",
                host=host,
                operation=AclOperation.READ,
                permission_type=AclPermission.ALLOW,
            )
            for host in hosts
        ]
    )


async def scenario(talk: Talk) -> None:
    others = ("*", "", " ", "10.0.0.1", "10.0.0.256", "host", "::1", "::", "**", "10.0.0.0\\8")
    for label, hosts in {
        "networks": tuple(NETWORKS),
        "no networks": MALFORMED,
        "other hosts": others,
        "networks, good and bad": ("172.16.0.0/12", "172.16.0.0/64", "172.16.0.0/12"),
    }.items():
        await talk.ask(label, rules(hosts))
    await talk.settled()
    for label, host in {
        "delete a network": "172.16.0.0/12",
        "delete the same network in other words": "010.0.0.0/8",
        "delete an address of a network": "192.168.0.1",
        "delete what is no network": "172.16.0.0/64",
    }.items():
        await talk.ask(label, _removal(host))


def _removal(host: str) -> DeleteAclsRequest:
    selected = DeleteAclsFilter(
        resource_type_filter=AclResource.TOPIC,
        resource_name_filter="t",
        pattern_type_filter=AclPattern.LITERAL,
        principal_filter=None,
        host_filter=host,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    return DeleteAclsRequest(filters=[selected])
