"""How `moldau group` changes offsets when others are quicker: in which order, and what it says."""

from __future__ import annotations

import asyncio
import io
import json
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from moldau.cli.command import Context
from moldau.cli.commands.group_offsets import exit_code, write_plan
from moldau.client import (
    Admin,
    FoundOffset,
    GroupDescription,
    MemberDescription,
    OffsetAndMetadata,
    OffsetsNotStored,
    Topic,
    TopicPartition,
)
from moldau.client.admin.cluster import ClusterDescription, LogDir
from moldau.client.base.offsets import EARLIEST
from moldau.errors import BadGiven, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.operations import moves
from moldau.operations.moves import Transfer
from moldau.operations.offsets import (
    ConsumerGroups,
    Destination,
    OffsetChange,
    Outcome,
    carry_out,
    follow,
    plan_groups,
    to_earliest,
)
from moldau.plugins import Plugins

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
Offsets = dict[TopicPartition, OffsetAndMetadata]


class Groups:
    """The part of an admin that changes offsets; `busy` groups have got a member."""

    def __init__(self, stored: dict[str, Offsets], busy: Iterable[str] = ()) -> None:
        self.stored = stored
        self.busy = set(busy)

    async def describe_cluster(self, *, include_fenced: bool) -> ClusterDescription:
        return ClusterDescription("cluster", 1, ())

    async def describe_log_dirs(self) -> list[LogDir]:
        return []

    async def list_topics(self, *, internal: bool) -> list[Topic]:
        return []

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Topic | KafkaError]:
        return {}

    async def group_offsets(self, group: str) -> Offsets:
        return dict(self.stored.get(group, {}))

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        if group in self.busy:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members", group=group)
        for where, each in offsets.items():
            whole = OffsetAndMetadata(each) if isinstance(each, int) else each
            self.stored.setdefault(group, {})[where] = whole

    async def delete_group(self, group: str) -> None:
        if group in self.busy:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, group=group)
        del self.stored[group]

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        done: dict[TopicPartition, KafkaError | None] = {}
        for where in partitions:
            del self.stored[group][where]
            done[where] = None
        return done


def move(groups: Groups, to: str, transfers: list[Transfer], *, keep: bool = False) -> None:
    asyncio.run(moves.do(cast(Admin, groups), "old", to, transfers, keeps=keep))


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "note", 3)


def test_all_that_a_group_has_moves_with_its_notes() -> None:
    groups = Groups({"old": {A: at(1), B: at(2)}})
    move(groups, "new", [Transfer(A, A, at(1), None, 1), Transfer(B, B, at(2), None, 2)])
    assert groups.stored == {"new": {A: at(1), B: at(2)}}


def test_what_does_not_move_stays_with_its_group() -> None:
    groups = Groups({"old": {A: at(1), B: at(2)}})
    move(groups, "new", [Transfer(A, A, at(1), None, 1)])
    assert groups.stored == {"new": {A: at(1)}, "old": {B: at(2)}}


def test_a_copy_deletes_nothing() -> None:
    groups = Groups({"old": {A: at(1)}})
    move(groups, "new", [Transfer(A, A, at(1), None, 1)], keep=True)
    assert groups.stored == {"old": {A: at(1)}, "new": {A: at(1)}}


def test_a_topic_of_another_name_has_other_leader_epochs() -> None:
    groups = Groups({"old": {A: at(1)}})
    move(groups, "old", [Transfer(A, B, at(1), None, 1)])
    assert groups.stored == {"old": {B: OffsetAndMetadata(1, "note", -1)}}


def test_two_topics_may_change_names_with_each_other() -> None:
    groups = Groups({"old": {A: at(1), B: at(2)}})
    move(groups, "old", [Transfer(A, B, at(1), 2, 1), Transfer(B, A, at(2), 1, 2)])
    assert {where: each.offset for where, each in groups.stored["old"].items()} == {A: 2, B: 1}


def test_what_somebody_has_committed_meanwhile_is_not_deleted() -> None:
    groups = Groups({"old": {A: at(5)}})
    with pytest.raises(MoldauError, match="stored for new, but not deleted") as caught:
        move(groups, "new", [Transfer(A, A, at(1), None, 1)])
    assert "the group has committed meanwhile" in str(caught.value)
    assert groups.stored == {"old": {A: at(5)}, "new": {A: at(1)}}


def test_a_member_that_came_back_keeps_its_group() -> None:
    groups = Groups({"old": {A: at(1)}}, busy=["old"])
    with pytest.raises(MoldauError, match="NON_EMPTY_GROUP"):
        move(groups, "new", [Transfer(A, A, at(1), None, 1)])
    assert groups.stored["old"] == {A: at(1)}


def test_nothing_is_deleted_when_nothing_could_be_stored() -> None:
    groups = Groups({"old": {A: at(1)}}, busy=["new"])
    with pytest.raises(KafkaError, match="the group has members"):
        move(groups, "new", [Transfer(A, A, at(1), None, 1)])
    assert groups.stored == {"old": {A: at(1)}}


def test_a_group_that_cannot_be_reset_costs_the_others_nothing() -> None:
    groups = Groups({"old": {A: at(1), B: at(9)}}, busy=["busy"])
    steps = [
        OffsetChange("old", A, 1, 4, 9),
        OffsetChange("old", B, 9, None, None, "the topic is gone"),
        OffsetChange("busy", A, 1, 4, 9),
        OffsetChange("fresh", A, None, 4, 9),
    ]
    outcome = asyncio.run(carry_out(cast(Admin, groups), ConsumerGroups(), steps))
    assert outcome.problems == [
        "not changed: UNKNOWN_MEMBER_ID: the group has members (group='busy')"
    ]
    four = OffsetAndMetadata(4)
    assert groups.stored == {"old": {A: four, B: at(9)}, "fresh": {A: four}}


class HalfGone(Groups):
    """Where topic b went after the plan was made."""

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        await super().alter_group_offsets(group, {A: offsets[A]})
        gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, group=group, topic="b")
        raise OffsetsNotStored(
            gone.code, gone.reason, results={A: None, B: gone}, group=group, stored=["a-0"]
        )


def test_a_group_that_was_changed_in_part_says_which_part() -> None:
    groups = HalfGone({"old": {A: at(1), B: at(2)}})
    steps = [OffsetChange("old", A, 1, 4, 9), OffsetChange("old", B, 2, 5, 9)]
    outcome = asyncio.run(carry_out(cast(Admin, groups), ConsumerGroups(), steps))
    out, err = io.StringIO(), io.StringIO()
    arguments = Namespace(json=True, execute=True)
    write_plan(arguments, Context(out, err, {}, lambda: Plugins([])), steps, outcome)
    notes = {each["topic"]: each["note"] for each in json.loads(out.getvalue())["offsets"]}
    assert notes == {"a": None, "b": "not changed"}
    assert err.getvalue().startswith("moldau: changed in part: UNKNOWN_TOPIC_OR_PARTITION: ")
    assert err.getvalue().endswith("(group='old', stored=['a-0'])\n")
    assert exit_code(arguments, outcome.problems) == 1


class Members(Groups):
    """Where busy groups are described with one member."""

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        who = MemberDescription("m", None, "app", "/10.0.0.1", (), "", (), (), None, 1, False)
        return {
            group: GroupDescription(
                group, "", "", "consumer", "", (who,) if group in self.busy else ()
            )
            for group in groups
        }


@pytest.mark.parametrize("execute", [False, True])
def test_a_group_that_has_members_costs_the_others_nothing(execute: bool) -> None:
    groups = Members({"old": {A: at(1)}, "busy": {A: at(1)}, "lost": {A: at(1)}}, busy=["busy"])
    steps = [
        OffsetChange("busy", A, 1, 4, 9),
        OffsetChange("old", A, 1, 4, 9),
        OffsetChange("lost", A, 1, 4, 9),
        OffsetChange("lost", B, 9, None, None, "it has no leader", is_obstacle=True),
    ]
    followed = follow(cast(Admin, groups), ConsumerGroups(), steps, {"odl": "WHO"}, execute=execute)
    outcome = asyncio.run(followed)
    assert groups.stored == {
        "old": {A: OffsetAndMetadata(4) if execute else at(1)},
        "busy": {A: at(1)},
        "lost": {A: at(1)},
    }
    assert {group: outcome.error(group) for group in ("old", "busy", "lost", "odl")} == {
        "old": None,
        "busy": "group busy has 1 member: stop them first",
        "lost": "b-0 of group lost: it has no leader",
        "odl": "WHO",
    }
    assert exit_code(Namespace(execute=execute), outcome.problems) == (1 if execute else 0)


class Logs(Groups):
    """With the logs that go from 0 to 9."""

    async def led_partitions(self, chosen: Iterable[TopicPartition]) -> list[TopicPartition]:
        return list(chosen)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        return {
            where: FoundOffset(0 if each == EARLIEST else 9, -1, -1)
            for where, each in wanted.items()
        }


@pytest.mark.parametrize("names", [{"a": "c", "b": "c"}, {"a": "b"}])
def test_two_topics_do_not_become_one(names: dict[str, str]) -> None:
    """Of two offsets for one partition one would be lost."""
    groups = cast(Admin, Logs({"old": {A: at(4), B: at(5)}}))
    with pytest.raises(BadGiven, match="two topics would become one"):
        asyncio.run(moves.plan(groups, "old", "new", {}, names))


def test_a_group_that_has_committed_nothing_costs_the_others_nothing() -> None:
    groups = cast(Admin, Logs({"old": {A: at(4)}, "last": {B: at(5)}}))
    names = ["old", "odl", "last"]
    planned = plan_groups(groups, ConsumerGroups(), names, {}, Destination(to_earliest))
    steps, failures = asyncio.run(planned)
    assert steps == [OffsetChange("old", A, 4, 0, 9), OffsetChange("last", B, 5, 0, 9)]
    assert failures == {"odl": "group odl has committed nothing: name a --topic"}
    out, err = io.StringIO(), io.StringIO()
    context = Context(out, err, {}, lambda: Plugins([]))
    arguments = Namespace(json=True, execute=True)
    outcome = Outcome(failures=failures)
    write_plan(arguments, context, steps, outcome)
    told = {each["group"]: each["executed"] for each in json.loads(out.getvalue())["groups"]}
    assert told == {"old": True, "last": True, "odl": False}
    assert (
        err.getvalue() == "moldau: not changed: group odl has committed nothing: name a --topic\n"
    )
    assert exit_code(arguments, outcome.problems) == 1
