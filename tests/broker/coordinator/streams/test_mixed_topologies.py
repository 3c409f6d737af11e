"""A new topology in a rolling upgrade: members of the old and the new one side by side."""

from __future__ import annotations

from random import Random

import pytest

from moldau.broker.coordinator.group.streams.mixed_topologies import (
    OlderTopology,
    as_settings,
    digest_of,
    of_settings,
    with_topology,
)
from moldau.broker.coordinator.group.streams.topology import Topology, topology_of
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages import streams_group_heartbeat as messages
from tests.broker.coordinator.streams.shard import Member, Shard, until_stable
from tests.broker.coordinator.streams.topologies import subtopology, topology

STALE = 0
NO_SOURCES = 1

KEPT = subtopology("0", "kept", changelogs=["kept-log"])
OLD = topology(KEPT, subtopology("1", "changed", changelogs=["old-log"]), epoch=1)
# It reads the same topic under another id.
NEW = topology(KEPT, subtopology("2", "changed", changelogs=["new-log"]), epoch=2)
TOPICS = ("kept", "kept-log", "changed", "old-log", "new-log")


def world(**named: object) -> Shard:
    shard = Shard(**{"group_streams_assignment_interval_ms": 0, **named})
    for name in TOPICS:
        shard.topics.put(name, 2)
    return shard


def old_members(shard: Shard, *names: str) -> list[Member]:
    found = [shard.member(each, topology=OLD) for each in names]
    for member in found:
        member.join()
    until_stable(shard, *found)
    return found


def readers(members: list[Member], topic: str) -> list[int]:
    """The partitions of a topic that members read now, each as often as it is read."""
    found = []
    for member in members:
        for each in member.topology.subtopologies:
            if topic in each.source_topics:
                found += member.active.get(each.subtopology_id, [])
    return sorted(found)


def test_changed_tasks_move_to_the_first_member_of_the_new_topology() -> None:
    shard = world()
    a, b = old_members(shard, "a", "b")
    c = shard.member("c", topology=NEW)
    c.join()
    until_stable(shard, a, b, c)
    assert c.active == {"2": [0, 1]}
    assert a.active.keys() | b.active.keys() == {"0"}
    assert readers([a, b, c], "kept") == [0, 1]
    assert STALE in a.statuses
    assert c.statuses == {}


def test_no_partition_has_two_readers_while_tasks_move() -> None:
    shard = world()
    a, b = old_members(shard, "a", "b")
    c = shard.member("c", topology=NEW)
    members = [a, b, c]
    c.join()
    assert c.active == {}, "the old topology still reads these partitions"
    a.beat()
    a.beat()
    c.beat()
    assert c.active == {}, "another member of the old topology still does"
    random = Random(5)
    for _ in range(20):
        random.choice(members).beat()
        for topic in ("kept", "changed"):
            read = readers(members, topic)
            assert len(read) == len(set(read))
    until_stable(shard, *members)
    assert readers(members, "changed") == [0, 1]


def test_the_old_topology_goes_on_until_the_topics_of_the_new_one_are_there() -> None:
    shard = world()
    (a,) = old_members(shard, "a")
    del shard.topics.known["changed"]
    missing = topology(KEPT, subtopology("2", "not-there"), epoch=2)
    shard.topics.put("changed", 2)
    c = shard.member("c", topology=missing)
    c.join()
    for _ in range(3):
        a.beat()
        c.beat()
    assert NO_SOURCES in c.statuses
    assert a.active == {"0": [0, 1], "1": [0, 1]}
    shard.topics.put("not-there", 1)
    shard.change_topics(["not-there"])
    until_stable(shard, c, a)
    assert c.active["2"] == [0]
    assert "1" not in a.active


def test_the_upgrade_ends_when_the_last_old_member_has_left() -> None:
    shard = world()
    a, b = old_members(shard, "a", "b")
    c = shard.member("c", topology=NEW)
    c.join()
    until_stable(shard, a, b, c)
    a.leave()
    b.leave()
    until_stable(shard, c)
    assert c.active == {"0": [0, 1], "2": [0, 1]}
    assert shard.group.state.older == {}


def test_the_next_coordinator_knows_what_old_members_can_run() -> None:
    shard = world()
    a, b = old_members(shard, "a", "b")
    c = shard.member("c", topology=NEW)
    c.join()
    shard.groups = shard.reloaded()
    until_stable(shard, a, b, c)
    assert c.active == {"2": [0, 1]}
    assert readers([a, b], "kept") == [0, 1]


def test_an_old_member_may_still_join_beside_the_new_topology() -> None:
    shard = world()
    c = shard.member("c", topology=NEW)
    c.join()
    a = shard.member("a", topology=OLD)
    a.join()
    until_stable(shard, a, c)
    assert "1" not in a.active
    assert readers([a, c], "kept") == [0, 1]
    assert c.active["2"] == [0, 1]


def test_an_epoch_stands_for_one_topology() -> None:
    shard = world()
    (a,) = old_members(shard, "a")
    shard.member("c", topology=NEW).join()
    in_new = topology(subtopology("0", "kept"), epoch=2)
    in_old = topology(subtopology("0", "kept"), epoch=1)
    for given in (in_new, in_old):
        with pytest.raises(KafkaError) as refused:
            shard.member("d", topology=given).join()
        assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert a.active.keys() == {"0", "1"}


def test_an_application_that_was_stopped_may_go_back_to_an_older_topology() -> None:
    shard = world()
    c = shard.member("c", topology=NEW)
    c.join()
    c.leave()
    (a,) = old_members(shard, "a")
    assert a.active == {"0": [0, 1], "1": [0, 1]}
    assert a.statuses == {}


def described(given: messages.Topology) -> Topology:
    return topology_of(given)


def test_an_old_member_that_joins_ends_an_upgrade_whose_new_members_have_left() -> None:
    shard = world()
    (a,) = old_members(shard, "a")
    c = shard.member("c", topology=NEW)
    c.join()
    until_stable(shard, a, c)
    c.leave()
    b = shard.member("b", topology=OLD)
    b.join()
    until_stable(shard, a, b)
    assert readers([a, b], "changed") == [0, 1]
    assert a.statuses == b.statuses == {}


def test_of_two_older_topologies_only_what_is_surely_the_same_is_run_by_both() -> None:
    epochs = {1: "abx", 2: "aby", 3: "az"}
    oldest, older, newest = (
        topology_of(topology(*(subtopology(each, each) for each in names), epoch=epoch))
        for epoch, names in epochs.items()
    )
    known = with_topology(oldest, {}, {1}, older)
    known = with_topology(known.current, known.older, {1, 2}, newest)
    back = with_topology(known.current, known.older, {1, 2}, older)
    assert back.current == older
    assert {epoch: each.same for epoch, each in back.older.items()} == {1: frozenset("a")}


def test_what_is_the_same_narrows_with_each_upgrade() -> None:
    third = topology(subtopology("0", "kept"), subtopology("2", "changed"), epoch=3)
    one = with_topology(described(OLD), {}, {1}, described(NEW))
    two = with_topology(one.current, one.older, {1, 2}, described(third))
    assert one.older[1].same == {"0"}
    assert {epoch: each.same for epoch, each in two.older.items()} == {
        1: frozenset(),
        2: frozenset(),
    }


def test_older_topologies_are_kept_as_settings_of_the_group() -> None:
    older = {1: OlderTopology.beside(described(OLD), described(NEW))}
    assert of_settings({"num.standby.replicas": "1", **as_settings(older)}) == older
    assert of_settings({"moldau.topology.x": "{", "moldau.topology.1": "no"}) == {}


def test_the_digest_does_not_depend_on_the_order_of_a_topology() -> None:
    turned = topology(*reversed(OLD.subtopologies), epoch=9)
    assert digest_of(described(OLD)) == digest_of(described(turned))
    assert digest_of(described(OLD)) != digest_of(described(NEW))
