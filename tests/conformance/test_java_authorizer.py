"""Our StandardAuthorizer decides as Java's, which runs in a JVM beside: random rules and requests.

`MOLDAU_DECISIONS` asks for another number of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.rights import Right
from tests.peers.apache_kafka import fetch_or_skip
from tests.protocol import network_table

pytestmark = pytest.mark.real

DECISIONS = int(os.environ.get("MOLDAU_DECISIONS", "100_000"))
A_CASE = 200
SOME = 10
# None begins with * and is longer: Java's scan takes the rules of * for those of a prefix then, so
# that DENY on every group does not deny the group *a.
NAMES = (
    *("a", "ab", "abc", "abd", "b", "orders", "order", "ord", "*", "\u00fc", "\u00fcber"),
    *("\U0001f600", "\U0001f600x", "+", "kafka-cluster"),
)
PRINCIPALS = ("User:alice", "User:bob", "User:a:b", "User:*", "User:ANONYMOUS", "Group:alice")
CLIENTS = tuple(each for each in PRINCIPALS if each != "User:*")  # Java's fails for it
HOSTS = ("127.0.0.1", "10.1.2.3", "0:0:0:0:0:0:0:1")
NETWORKS_OF_RULES = ("10.1.2.0/24", "10.99.2.0/24", "::/96", "10.1.2.3/33")
RULE_HOSTS = (*HOSTS, "*", "::1", *NETWORKS_OF_RULES)
KINDS = tuple(each for each in AclResource if each > AclResource.ANY)
ASKED = tuple(each for each in AclOperation if each > AclOperation.ALL)
RULED = (AclOperation.ALL, *ASKED)


def case(random: Random) -> dict[str, Any]:
    kinds = random.sample(KINDS, 2)
    operations = random.sample(RULED, 5)
    asked = [each for each in operations if each is not AclOperation.ALL]
    asked += [AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]
    unique = {
        (
            random.choice(kinds),
            random.choice(NAMES),
            random.choice((3, 3, 4)),
            random.choice(PRINCIPALS),
            random.choice(RULE_HOSTS),
            random.choice(operations),
            random.choice((2, 3, 3)),
        ): None
        for _ in range(random.choice((0, 1, 3, 10, 30)))
    }
    return {
        "super": random.choice(["", "User:bob", " User:bob ; User:a:b;"]),
        "default": random.random() < 0.3,
        "acls": [list(each) for each in unique],
        "asked": [
            [
                random.choice(CLIENTS),
                random.choice(HOSTS),
                random.choice(asked),
                random.choice(kinds),
                random.choice(NAMES),
            ]
            for _ in range(A_CASE - SOME)
        ],
        "some": [
            [
                random.choice(CLIENTS),
                random.choice(HOSTS),
                random.choice(asked),
                random.choice(kinds),
            ]
            for _ in range(SOME)
        ],
    }


def client(asked: list[Any]) -> RequestContext:
    kind, _, name = asked[0].partition(":")
    return RequestContext("c", f"/{asked[1]}", 1, "SASL", Principal(kind, name))


def right(asked: list[Any]) -> Right:
    return Right(AclResource(asked[3]), AclOperation(asked[2]))


def ours(one: dict[str, Any]) -> str:
    index = AclIndex()
    for acl in one["acls"]:
        index.add(Acl(*acl))
    users = [each.strip() for each in one["super"].split(";") if each.strip()]
    authorizer = StandardAuthorizer(lambda: index, users, allows_by_default=one["default"])
    authorizer.is_ready = True
    answers = [bool(authorizer.allowed(client(a), right(a), (a[4],))) for a in one["asked"]]
    answers += [authorizer.allowed_on_some(client(a), right(a)) for a in one["some"]]
    return "".join(str(int(each)) for each in answers)


def test_random_decisions_are_those_of_java() -> None:
    kafka = fetch_or_skip()
    random = Random(os.environ.get("MOLDAU_SEED", "42"))
    cases = [case(random) for _ in range(DECISIONS // A_CASE)]
    theirs = kafka.run_source(
        Path(__file__).with_name("Authorizer.java"),
        [json.dumps(each) for each in cases],
        timeout_s=max(300, DECISIONS / 1000),
    )
    for one, answers in zip(cases, theirs, strict=True):
        assert ours(one) == answers, one
    allowed = sum(each.count("1") for each in theirs)
    assert 0.1 < allowed / (len(theirs) * A_CASE) < 0.9, "both answers are common"


def test_networks_are_those_of_java() -> None:
    networks, malformed = network_table.NETWORKS, network_table.MALFORMED
    hosts = network_table.CLIENTS
    asked = [*networks, *malformed]
    lines = [json.dumps({"network": each, "hosts": hosts}) for each in asked]
    theirs = fetch_or_skip().run_source(Path(__file__).with_name("Networks.java"), lines)
    kept = [f"1{clients}" for clients in networks.values()]
    kept += ["0" * (1 + len(hosts)) for _ in malformed]
    differing = [
        (network, "Kafka says", java, "kept is", ours)
        for network, java, ours in zip(asked, theirs, kept, strict=True)
        if java != ours
    ]
    assert not differing
