"""A connection keeps the topics that it may write to: a produce passes exactly if the rules of this
moment let it pass."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.api import gate
from moldau.broker.api.handlers import APIS
from moldau.broker.api.produce_usual import learn
from moldau.broker.api.rights import grants
from moldau.broker.api.rights.grants import WriteGrants
from moldau.broker.api.rights.table import RIGHTS
from moldau.broker.controller.image import Image
from moldau.broker.decision.context import Principal, RequestContext
from moldau.broker.decision.standard_authorizer import StandardAuthorizer
from moldau.broker.security.access.rule import Acl
from moldau.ids import Uuid
from moldau.protocol.acl_operations import AclOperation, AclPattern, AclPermission, AclResource
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.rights import Right
from moldau.protocol.schemas.metadata_log import TopicRecord

ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
NAMES = ("a", "ab", "orders", "payroll")
IDS = {name: Uuid(bytes([number]) * 16) for number, name in enumerate(NAMES, 1)}
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
WRITE = Right(AclResource.TOPIC, AclOperation.WRITE)


def rule(name: str, permission: int = ALLOW, pattern: int = AclPattern.LITERAL) -> Acl:
    return Acl(AclResource.TOPIC, name, pattern, "User:alice", "*", WRITE.operation, permission)


class Broker:
    """Produce behind its guard; what reaches the handler is noted."""

    def __init__(self) -> None:
        self.image = Image()
        for name, topic_id in IDS.items():
            self.image.replay_all([TopicRecord(name=name, topic_id=topic_id)])
        authorizer = StandardAuthorizer(lambda: self.node.image.acls.index)
        authorizer.is_ready = True
        self.authorizer = authorizer
        self.node: Any = SimpleNamespace(authorizer=authorizer, image=self.image)
        self.passed: list[str | Uuid] = []
        self.usual = 0
        """The number of requests that passed by their outlines."""
        self.connection: Any = SimpleNamespace(grants=None, principal=ALICE, address="10.0.0.1")
        row = replace(APIS[0], serve=self._serve)
        self._handle = gate.checked(row, RIGHTS[0])

    def _serve(self, node: Any, request: Any, message: Any = None, usual: Any = None) -> None:
        """Note the topics. As the handler does, learn the outline of what passes."""
        if usual is not None:
            self.usual += 1
            self.passed = list(dict.fromkeys(usual[0].keys))
            return
        message = message or request.decode()
        self.passed = [each.name or each.topic_id for each in message.topic_data]
        learn(message, request.body, request.arrival.version)

    def write(self, *topics: str | Uuid, transactional_id: str | None = None) -> list[Any]:
        """Produce to topics; return those that pass."""
        is_by_id = any(isinstance(each, Uuid) for each in topics)
        one = [PartitionProduceData(index=0, records=bytes(100))]
        data = [
            TopicProduceData(topic_id=each, partition_data=one)
            if isinstance(each, Uuid)
            else TopicProduceData(name=each, partition_data=one)
            for each in topics
        ]
        message = ProduceRequest(
            transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=data
        )
        version = 13 if is_by_id else 9
        self.passed = []
        request: Any = SimpleNamespace(
            decode=lambda: message,
            body=memoryview(message.encode(version)),
            arrival=SimpleNamespace(key=0, version=version),
            connection=self.connection,
            context=RequestContext("c", "/10.0.0.1", version, "OUT", self.connection.principal),
            answer=lambda response: None,
        )
        self._handle(self.node, request)
        return self.passed


@pytest.mark.parametrize("is_by_id", [False, True])
def test_a_change_of_the_rules_counts_for_the_next_request(is_by_id: bool) -> None:
    broker = Broker()
    topic: Any = IDS["orders"] if is_by_id else "orders"
    assert broker.write(topic) == []
    broker.image.acls.index.add(rule("orders"))
    assert broker.write(topic) == [topic] == broker.write(topic)
    assert broker.usual, "the handler got the outline, and a change counts all the same"
    broker.image.acls.index.add(rule("ord", DENY, AclPattern.PREFIXED))
    assert broker.write(topic) == [] == broker.write(topic)
    broker.image.acls.index.remove(rule("ord", DENY, AclPattern.PREFIXED))
    assert broker.write(topic) == [topic]
    fresh = Broker()
    broker.node.image = fresh.image
    assert broker.write(topic) == [], "a new snapshot has other rules"


def test_another_principal_of_the_connection_has_its_own_rights() -> None:
    broker = Broker()
    broker.image.acls.index.add(rule("orders"))
    assert broker.write("orders") == ["orders"] == broker.write("orders")
    assert broker.usual
    broker.connection.principal = BOB
    assert broker.write("orders") == []
    broker.connection.principal = ALICE
    assert broker.write("orders") == ["orders"]


def test_what_is_kept_asks_the_authorizer_no_more_and_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grants, "TOPICS_MAX", 3)
    broker = Broker()
    broker.image.acls.index.add(rule("*"))
    assert broker.write("a", "ab") == ["a", "ab"]
    broker.node.authorizer = None  # any question fails from here on
    assert broker.write("ab") == ["ab"]
    broker.node.authorizer = broker.authorizer
    for number in range(20):
        assert broker.write(f"t{number}", "a") == [f"t{number}", "a"]
        assert isinstance(broker.connection.grants, WriteGrants)
        assert len(broker.connection.grants.topics) <= 3
    assert len(broker.write("a", "ab", "orders", "payroll")) == 4
    assert len(broker.connection.grants.topics) <= 3


def test_an_unknown_id_is_not_kept_for_the_topic_that_it_becomes() -> None:
    broker = Broker()
    later = Uuid(b"z" * 16)
    broker.image.acls.index.add(rule("orders"))
    assert broker.write(IDS["orders"], later) == [IDS["orders"], later], "the handler knows no such"
    broker.image.replay_all([TopicRecord(name="secret", topic_id=later)])
    assert broker.write(IDS["orders"], later) == [IDS["orders"]]


def test_random_changes_and_requests_are_decided_as_without_what_is_kept() -> None:
    random, broker = Random(42), Broker()
    index = broker.image.acls.index
    rules = [
        rule(name, permission, pattern)
        for name in (*NAMES, "*")
        for permission in (ALLOW, DENY)
        for pattern in (AclPattern.LITERAL, AclPattern.PREFIXED)
    ]
    passes = 0
    for _ in range(4000):
        if random.random() < 0.1:
            chosen = random.choice(rules)
            (index.remove if index.has(chosen) else index.add)(chosen)
        broker.connection.principal = random.choice((ALICE, ALICE, ALICE, BOB))
        names = random.sample(NAMES, random.choice((1, 2, 4)))
        asked: list[Any] = [IDS[each] for each in names] if random.random() < 0.5 else list(names)
        user = str(broker.connection.principal)
        may = [broker.authorizer.explain(user, "10.0.0.1", WRITE, each) for each in names]
        expected = [each for each, verdict in zip(asked, may, strict=True) if verdict.is_allowed]
        assert broker.write(*asked) == expected
        passes += bool(expected)
    assert 400 < passes < 3600, "both answers are common"


def test_a_transactional_id_needs_its_own_right_each_time() -> None:
    broker = Broker()
    broker.image.acls.index.add(rule("orders"))
    assert broker.write("orders") == ["orders"]
    asked: list[Any] = []
    before = broker.authorizer.allowed

    def noting(context: Any, right: Any, names: Any) -> Any:
        asked.append(names)
        return before(context, right, names)

    broker.authorizer.allowed = noting  # type: ignore[method-assign]
    assert broker.write("orders", transactional_id="t") == ["orders"]
    assert asked == [["orders"]]
