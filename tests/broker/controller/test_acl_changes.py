"""Access rules for networks are made from the metadata.version on that knows them."""

from __future__ import annotations

import pytest

from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord
from tests.broker.controller.cluster import Cluster

NETWORKS_FROM = 32
UNSUPPORTED, INVALID = 35, 42


def created(cluster: Cluster, *hosts: str) -> list[int]:
    """The code of each rule, which differ in the host alone."""
    request = CreateAclsRequest(
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
    return [each.error_code for each in cluster.ask(request, CreateAclsResponse).results]


@pytest.mark.parametrize(
    ("host", "below", "above"),
    [
        ("10.0.0.0/8", UNSUPPORTED, 0),
        ("fe80::/10", UNSUPPORTED, 0),
        ("10.0.0/8", UNSUPPORTED, INVALID),
        ("/", UNSUPPORTED, INVALID),
        ("", INVALID, INVALID),
        ("*", 0, 0),
        ("10.0.0.1", 0, 0),
        ("anything else", 0, 0),
    ],
)
def test_a_network_needs_its_level(host: str, below: int, above: int) -> None:
    cluster = Cluster()
    for level in (NETWORKS_FROM - 1, NETWORKS_FROM):
        cluster.append([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        assert created(cluster, "1.1.1.1", host) == [0, below if level < NETWORKS_FROM else above]
        hosts = {each.host for each in cluster.image.acls.by_id.values()}
        assert (host in hosts) == (0 in ((below,) if level < NETWORKS_FROM else (below, above)))
    cluster.check_fold()
