"""`moldau streams status`: what a group's description has of tasks and standbys."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.client.group.descriptions import GroupDescription, MemberDescription, MemberTasks
from moldau.streams.commands.status_action import statuses
from tests.streams.worker.counting import word_count

PLAN = word_count("wc")


def group(*members: MemberDescription, type_: str = "streams") -> GroupDescription:
    return GroupDescription("wc", "Stable", type_, type_, "sticky", members)


def test_standbys_stand_beside_the_tasks_with_what_they_lack() -> None:
    one = MemberTasks(
        ("1_0", "0_10"), ("1_1",), topology_epoch=2, endpoint="h:8100", positions={"1_1": (40, 42)}
    )
    other = MemberTasks(("1_1", "0_2"), (), ("1_0",))
    found = statuses(
        group(
            MemberDescription("one", None, "c", "/h", tasks=one),
            MemberDescription("other", None, "c", "/i", tasks=other),
        ),
        PLAN,
    )
    assert [(each.task, each.role, each.worker) for each in found] == [
        ("0_2", "active", "other"),
        ("0_10", "active", "one"),
        ("1_0", "active", "one"),
        ("1_0", "warmup", "other"),
        ("1_1", "active", "other"),
        ("1_1", "standby", "one"),
    ]
    standby = found[-1]
    assert (standby.offset, standby.lag) == (40, 2)
    assert (standby.queries, standby.topology) == ("h:8100", 2)
    assert found[3].lag is None, "it has not reported yet"


def test_a_classic_group_has_the_tasks_of_the_partitions() -> None:
    where = (TopicPartition("lines", 1), TopicPartition("wc-words-repartition", 1))
    member = MemberDescription("id", "wc-1", "c", "/h", assignment=where)
    found = statuses(group(member, type_="classic"), PLAN)
    assert [(each.task, each.role, each.worker) for each in found] == [
        ("0_1", "active", "wc-1"),
        ("1_1", "active", "wc-1"),
    ]
