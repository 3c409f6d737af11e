"""Members tell each other their addresses with the assignment."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.client.group.assignors.assignor import Share, Subscription
from moldau.streams.worker.owners import OwnerAssignor

TOPICS = {"in": [frozenset[str]()] * 3}


def test_every_member_knows_where_each_partition_is() -> None:
    members = {"a": OwnerAssignor("one:1"), "b": OwnerAssignor("two:2"), "c": OwnerAssignor("")}
    wishes = {
        name: Subscription(("in",), each.user_data(frozenset({"in"})))
        for name, each in members.items()
    }
    shares = members["b"].assign(TOPICS, wishes)
    for name, each in members.items():
        share = shares[name]
        assert isinstance(share, Share)
        each.on_assignment(share, 1, share.user_data)
        owners = [each.owner(TopicPartition("in", number)) for number in range(3)]
        assert owners == ["one:1", "two:2", None]


def test_inputs_of_a_task_come_to_one_member_however_many_partitions_they_have() -> None:
    """Two workers would run one task otherwise, and call its timers twice."""
    topics = {name: [frozenset[str]()] * count for name, count in (("a", 4), ("b", 2), ("c", 2))}
    assignor = OwnerAssignor("")
    assignor.together = [("b", "a"), ("c",)]
    wishes = {member: Subscription(("a", "b", "c")) for member in ("m", "n")}

    shares = assignor.assign(topics, wishes)

    owned = {
        member: [f"{where.topic}{where.partition}" for where in share]
        for member, share in shares.items()
    }
    assert owned == {"m": ["a0", "a1", "b0", "c0", "b1"], "n": ["a2", "a3", "c1"]}


def test_what_another_assignor_says_is_ignored() -> None:
    assignor = OwnerAssignor("one:1")
    wishes = {"a": Subscription(("in",), b"\0\1"), "b": Subscription(("in",))}
    assert {name: len(share) for name, share in assignor.assign(TOPICS, wishes).items()} == {
        "a": 2,
        "b": 1,
    }
    assignor.on_assignment([], 1, b"\0\1")
    assert assignor.owner(TopicPartition("in", 0)) is None
