"""`moldau streams status`: what a group's description has of tasks and standbys."""

from __future__ import annotations

from io import StringIO

import msgspec

from moldau.client import TopicPartition
from moldau.client.group.descriptions import GroupDescription, MemberDescription, MemberTasks
from moldau.streams.commands.pause_action import addresses
from moldau.streams.commands.status_action import statuses, write_status
from moldau.streams.worker.owners import Address
from tests.streams.worker.counting import word_count

PLAN = word_count("wc")


def group(*members: MemberDescription, type_: str = "streams") -> GroupDescription:
    return GroupDescription("wc", "Stable", type_, type_, "sticky", members)


def test_standbys_stand_beside_the_tasks_with_what_they_lack() -> None:
    told = {"1_1": (40, 42), "1_0": (7, 7)}  # the latter when it was a copy
    one = MemberTasks(
        ("1_0", "0_10"), ("1_1",), topology_epoch=2, endpoint="h:8100", positions=told
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
    assert found[2].offset is None, "a task that runs is not behind"


def test_each_worker_of_either_group_has_the_address_of_its_queries() -> None:
    told = msgspec.json.encode(Address("c:8102"))
    classic = MemberDescription("id", "wc-1", "c", "/h", user_data=told)
    silent = MemberDescription("other", None, "c", "/h", user_data=b"\x00")
    assert addresses(group(silent, classic, type_="classic")) == [("other", ""), ("wc-1", "c:8102")]
    member = MemberDescription("one", None, "c", "/h", tasks=MemberTasks(endpoint="h:8100"))
    assert addresses(group(member)) == [("one", "h:8100")]


def test_a_classic_group_has_the_tasks_of_the_partitions() -> None:
    where = (TopicPartition("lines", 1), TopicPartition("wc-words-repartition", 1))
    told = msgspec.json.encode(Address("c:8102"))
    member = MemberDescription("id", "wc-1", "c", "/h", assignment=where, user_data=told)
    found = statuses(group(member, type_="classic"), PLAN)
    assert [(each.task, each.role, each.worker, each.queries) for each in found] == [
        ("0_1", "active", "wc-1", "c:8102"),
        ("1_1", "active", "wc-1", "c:8102"),
    ]


def test_a_status_without_tasks_says_why() -> None:
    def written(*members: MemberDescription) -> list[str]:
        out = StringIO()
        found = group(*members)
        write_status(out, "wc", found, statuses(found, PLAN))
        return out.getvalue().splitlines()

    assert written() == [
        "app wc: streams group, Stable, 0 workers",
        "none of its workers runs: start it with moldau streams run",
    ]
    idle = MemberDescription("one", None, "c", "/h", tasks=MemberTasks())
    assert written(idle)[1:] == ["no worker has a task now: look again when the group is stable"]
