"""Vulnerabilities that brokers had, of which no other test shows that this one does not have them.

docs/security-past.md has the list of all, with their tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.decision.authorizer import CLUSTER_NAME
from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.raft.node import RaftNode
from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.fetch import FetchResponse, ReplicaState
from moldau.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
)
from moldau.protocol.rights import Right
from tests.broker.api.requests import batch, fetch, produce, want
from tests.broker.api.serving import Serving, fetched, serving

TOPIC, CLUSTER = AclResource.TOPIC, AclResource.CLUSTER
READ, ALL = AclOperation.READ, AclOperation.ALL
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def rule(
    operation: AclOperation,
    permission: AclPermission = ALLOW,
    kind: AclResource = TOPIC,
    name: str = "t",
    principal: str = "User:ANONYMOUS",
) -> Acl:
    return Acl(kind, name, AclPattern.LITERAL, principal, "*", operation, permission)


def authorizer_of(index: AclIndex) -> StandardAuthorizer:
    made = StandardAuthorizer(lambda: index)
    made.is_ready = True
    return made


@serving()
async def test_a_client_that_says_it_is_a_follower_needs_the_right_of_one(at: Serving) -> None:
    """CVE-2018-1288: a forged fetch of a follower moved the high watermark."""
    topic_id = at.create("t")
    at.send(produce("t", batch()))
    index = AclIndex()
    at.node.authorizer = authorizer_of(index)
    index.add(rule(READ))
    forged = (
        (fetch(("t", want()), replica_id=5), 12),
        (fetch((topic_id, want()), replica_state=ReplicaState(replica_id=5, replica_epoch=1)), 17),
    )
    for request, version in forged:
        (row,) = fetched(await at.ask(request, FetchResponse, version)).values()
        assert row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (row,) = fetched(await at.ask(fetch(("t", want())), FetchResponse, 12)).values()
    assert row.error_code == ErrorCode.NONE
    index.add(rule(AclOperation.CLUSTER_ACTION, kind=CLUSTER, name=CLUSTER_NAME))
    (row,) = fetched(await at.ask(forged[0][0], FetchResponse, 12)).values()
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_of_several_rules_the_others_stay_when_one_is_removed() -> None:
    """CVE-2024-27309: the removal of one rule of a resource took the effect of a DENY along."""
    alice = RequestContext("c", "/10.0.0.1", 1, "X", Principal("User", "ANONYMOUS"))
    index = AclIndex()
    authorizer = authorizer_of(index)
    several = [rule(READ, DENY), rule(ALL), rule(READ), rule(READ, principal="User:bob")]

    def may() -> bool:
        return bool(authorizer.allowed(alice, Right(TOPIC, READ), ("t",)))

    for gone in several:
        for each in several:
            index.add(each)
        index.remove(gone)
        left = [each for each in several if each is not gone]
        assert may() == (several[0] not in left)
        for each in left:
            index.remove(each)
        assert not may()


@pytest.mark.parametrize(
    "topics", [[], [FetchSnapshotRequestTopicSnapshot(name="x", partitions=[])]]
)
def test_a_request_for_a_snapshot_of_nothing_is_refused(
    topics: list[FetchSnapshotRequestTopicSnapshot],
) -> None:
    """CVE-2026-83525: it ended the controller."""
    answers: list[Any] = []
    alive: Any = SimpleNamespace(_check_alive=lambda: None)
    RaftNode.serve_snapshot(alive, FetchSnapshotRequest(topics=topics), answers.append)
    (answer,) = answers
    assert isinstance(answer, FetchSnapshotResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
