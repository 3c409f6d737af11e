"""Everybody's consumers in one group: they agree on who reads what, whoever leads, and nobody's
coming and going costs a record."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Cluster
from tests.conformance.broker import MoldauBroker
from tests.conformance.group_log import OFFSETS_TOPIC, GroupLog, partition_of
from tests.conformance.group_story import story
from tests.conformance.member_kinds import BOTH_WAYS, CAN, CLASSIC, KINDS, STATIC, Wish
from tests.conformance.nodes import three_nodes as three_nodes
from tests.conformance.quick_brokers import QUICK
from tests.conformance.quick_brokers import quick_kafka as quick_kafka
from tests.conformance.quick_brokers import quick_moldau as quick_moldau
from tests.peers.either_broker import Broker

pytestmark = pytest.mark.real

THREE = pytest.param("three_nodes", marks=pytest.mark.deep)
OURS: list[Any] = [("quick_moldau", strategy) for strategy in (*CLASSIC, "consumer")]
ON_THREE = [
    pytest.param("three_nodes", strategy, marks=pytest.mark.deep)
    for strategy in ("range", "cooperative-sticky", "consumer")
]
# Our members among others where the coordinator is Apache Kafka's.
THEIRS = [("quick_kafka", strategy) for strategy in ("range", "cooperative-sticky", "consumer")]

OFFSETS_PARTITIONS = 50  # of the log of groups, unless a broker is told otherwise
LONG_SESSION_MS = 45_000  # in which any client can come again


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """The one that the test is parametrized with."""
    found: Broker = request.getfixturevalue(request.param)
    return found


def others(strategy: str, folder: Path) -> list[str]:
    """Who is here and can that, ours left out."""
    found = []
    for client, can in CAN.items():
        if strategy in can and client != "moldau":
            try:
                KINDS[client].command(Wish("", "", "", strategy, client), folder)
            except pytest.skip.Exception:
                continue
            found.append(client)
    if not found:
        pytest.skip(f"none of the clients that know {strategy} is here")
    return found


@pytest.mark.parametrize("client", sorted(CAN.keys() - {"moldau"}))
def test_a_client_that_these_groups_are_without_is_named(client: str, tmp_path: Path) -> None:
    """As what is skipped, with the reason: below it is only left out."""
    assert KINDS[client].command(Wish("", "", "", CAN[client][0], client), tmp_path)


@pytest.mark.parametrize(("broker", "strategy"), OURS + ON_THREE + THEIRS, indirect=["broker"])
def test_each_shares_with_ours_and_leads_once_and_follows_once(
    broker: Broker, strategy: str, tmp_path: Path
) -> None:
    """Two at a time, ours and another: ours joins it, it leaves; another joins, ours leaves; ..."""
    clients = others(strategy, tmp_path)
    with story(broker, strategy, f"carousel-{strategy}", 4, tmp_path) as told:
        start = told.members.start
        ours = start("moldau")
        told.shared_by(ours)
        for client in clients:
            other = start(client)
            told.shared_by(ours, other)
            ours.leave()
            told.shared_by(other)
            ours = start("moldau")
            told.shared_by(other, ours)
            other.leave()
            told.shared_by(ours)
        log = told.end()
    if strategy != "consumer":  # there nobody leads
        assert {each.strategy for each in log.rounds} == {strategy}
        assert leaders_and_followers(log) == {
            pair for each in clients for pair in ((each, "moldau"), ("moldau", each))
        }


def leaders_and_followers(log: GroupLog) -> set[tuple[str, str]]:
    """Of the generations with two members: whose client led whose."""
    found = set()
    for each in log.rounds:
        followers = each.shares.keys() - {each.leader}
        if each.leader is not None and len(followers) == 1:
            found.add((client_of(each.leader), client_of(*followers)))
    return found


def client_of(member: str) -> str:
    return member.rpartition(".")[0]


@pytest.mark.parametrize("broker", ["quick_moldau", THREE], indirect=True)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
def test_all_in_one_group_are_restarted_one_by_one(
    broker: Broker, strategy: str, tmp_path: Path
) -> None:
    """Each leaves as it should and comes again. Then most of them are killed at once, and come
    again while the group still waits for the dead."""
    clients = [*others(strategy, tmp_path), "moldau"]
    with story(broker, strategy, f"rolling-{strategy}", 12, tmp_path) as told:
        members = [told.members.start(client) for client in clients]
        told.shared_by(*members)
        for place, client in enumerate(clients):
            members[place].leave()
            members[place] = told.members.start(client)
            told.shared_by(*members)
        may_be_killed = [each for each in members if each.kind.tells_before_it_commits]
        for each in may_be_killed:
            each.kill()
        for each in may_be_killed:
            place = members.index(each)
            members[place] = told.members.start(clients[place])
        told.shared_by(*members)
        told.end()


@pytest.mark.parametrize("broker", ["quick_moldau", THREE, "quick_kafka"], indirect=True)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
def test_static_members_come_again_to_what_they_had(
    broker: Broker, strategy: str, tmp_path: Path
) -> None:
    """Every other one is killed instead of ended; not in the protocol of KIP-848, which keeps the
    place of one that is killed from everybody until its session is over."""
    can = set(STATIC) - ({"franz-go"} if strategy == "consumer" else set())
    clients = [each for each in (*others(strategy, tmp_path), "moldau") if each in can]
    name = f"mixed-static-{strategy}"
    with story(broker, strategy, name, 12, tmp_path, session_ms=LONG_SESSION_MS) as told:
        members = [told.members.start(each, is_static=True) for each in clients]
        told.shared_by(*members)
        shares = [each.owned for each in members]
        for place, client in enumerate(clients):
            if place % 2 and strategy != "consumer":
                members[place].kill()
            else:
                members[place].leave()
            members[place] = told.members.start(client, is_static=True)
            told.shared_by(*members)
            assert [each.owned for each in members] == shares
        told.end()


@pytest.mark.parametrize("broker", ["quick_moldau", THREE, "quick_kafka"], indirect=True)
def test_a_group_becomes_cooperative_in_two_rounds_of_restarts(
    broker: Broker, tmp_path: Path
) -> None:
    """As Kafka's manual says: first all learn the new strategy, then all forget the old one."""
    old, new = "range", "cooperative-sticky"
    clients = [each for each in (*others(new, tmp_path), "moldau") if each in BOTH_WAYS]
    with story(broker, old, "upgraded", 10, tmp_path) as told:
        members = [told.members.start(client) for client in clients]
        told.shared_by(*members)
        for strategy in (f"{new},{old}", new):
            for place, client in enumerate(clients):
                members[place].leave()
                members[place] = told.members.start(client, strategy)
                told.shared_by(*members)
        log = told.end()
    assert [each for each, _ in groupby(each.strategy for each in log.rounds)] == [old, new]


@pytest.mark.parametrize("broker", ["quick_moldau", THREE, "quick_kafka"], indirect=True)
def test_a_group_goes_to_the_new_protocol_and_back_while_it_works(
    broker: Broker, tmp_path: Path
) -> None:
    """Member by member, so that for most of the time the two protocols are mixed.

    By range: a librdkafka that leads by cooperative-sticky hands Java's user data back as part of
    the assignment, and both brokers refuse to take such a group into the new protocol.
    """
    strategy = "range"
    clients = [*others("consumer", tmp_path), "moldau"]
    with story(broker, strategy, "migrated", 8, tmp_path) as told:
        members = [told.members.start(client) for client in clients]
        told.shared_by(*members)
        for protocol in ("consumer", strategy):
            for place, client in enumerate(clients):
                members[place].leave()
                members[place] = told.members.start(client, protocol)
                told.shared_by(*members)
        told.end()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
def test_all_outlive_a_broker_that_is_killed(strategy: str, tmp_path: Path) -> None:
    """It comes again with its files; members join or go on, each as its client does. Then they
    leave one by one, and who is left goes on with what they committed under either leader epoch."""
    settings = [word for each in QUICK.items() for word in ("--set", "=".join(each))]
    with (
        MoldauBroker(tmp_path / "broker", *settings) as broker,
        story(broker, strategy, "killed", 12, tmp_path) as told,
    ):
        members = [told.members.start("moldau")]
        told.shared_by(*members)
        members += [told.members.start(client) for client in others(strategy, tmp_path)]
        told.shared_by(*members)
        broker.kill()
        broker.start()
        told.shared_by(*members)
        while len(members) > 1:
            members.pop(0).leave()
            told.shared_by(*members)
        told.end()


@pytest.mark.deep
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "consumer"])
def test_all_outlive_the_death_of_their_coordinator(
    three_nodes: Cluster, strategy: str, tmp_path: Path
) -> None:
    """The group moves to another node while it works, and may move back; then they leave."""
    group = f"moved-{strategy}"
    with story(three_nodes, strategy, group, 12, tmp_path) as told:
        members = [told.members.start(client) for client in (*others(strategy, tmp_path), "moldau")]
        told.shared_by(*members)
        where = partition_of(group, OFFSETS_PARTITIONS)
        coordinator = three_nodes.leader_of(OFFSETS_TOPIC, where)
        three_nodes.kill(coordinator)
        told.shared_by(*members)
        assert three_nodes.leader_of(OFFSETS_TOPIC, where) != coordinator
        three_nodes.start(coordinator)
        three_nodes.await_in_sync(group)
        while len(members) > 1:
            members.pop(0).leave()
            told.shared_by(*members)
        told.end()
