"""Members of consumer groups (KIP-848), step by step: one that joins, owns, commits and leaves; two
that hand partitions over; static ones; what is refused; each protocol on a group of the other."""

from __future__ import annotations

from typing import Any

from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.differential.group_requests import (
    commit,
    coordinated,
    delete_offsets,
    fetch_offsets,
    name_text,
)
from tests.differential.scenarios.group_members import beat, join, leave, sync
from tests.differential.talk import Talk, versions

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.size": "2",
    "group.initial.rebalance.delay.ms": "0",
}


def heartbeat(group: str, member: str, epoch: int, **more: Any) -> ConsumerGroupHeartbeatRequest:
    """The first one (epoch 0) subscribes to "t" and owns nothing."""
    first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"]}
    fields: dict[str, Any] = first | {"topic_partitions": []} if epoch == 0 else {}
    owned = more.pop("owned", None)
    if owned is not None:
        fields["topic_partitions"] = [
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in owned.items()
        ]
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **{**fields, **more}
    )


def describe(*groups: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)


async def scenario(talk: Talk) -> None:
    ids = {"t": await talk.topic("t", 2), "u": await talk.topic("u")}
    await coordinated(talk)
    every = versions(ConsumerGroupHeartbeatRequest)
    for version in every:
        await _life(talk, version, ids)
    await _refusals(talk, every)
    await _two(talk, ids)
    await _static(talk)
    await _other_protocol(talk, ids)


async def _life(talk: Talk, version: int, ids: dict[str, bytes]) -> None:
    group = f"life{version}"
    given = "" if version == 0 else "member-one"
    answer = await talk.ask(f"join {group}", heartbeat(group, given, 0), version)
    if version == 0:
        name_text(talk, answer.member_id, "<one>")
    member, epoch = answer.member_id, answer.member_epoch
    owned = {ids["t"]: [0, 1]}
    await talk.ask(f"owns {group}", heartbeat(group, member, epoch, owned=owned), version)
    await talk.ask(f"describe {group}", describe(group), versions(ConsumerGroupDescribeRequest))
    await talk.ask(f"list {group}", ListGroupsRequest(types_filter=["consumer"]))
    await talk.ask(f"stays {group}", heartbeat(group, member, epoch), version)
    for label, who, number in (
        ("a commit of the member", member, epoch),
        ("a commit of an old epoch", member, epoch - 1),
        ("a commit of a later epoch", member, epoch + 1),
        ("a commit of a stranger", "stranger", epoch),
        ("a commit of nobody", "", -1),
    ):
        request = commit(group, {"t": {0: 3}}, ids, member=who, epoch=number)
        await talk.ask(f"{label} {group}", request, versions(OffsetCommitRequest))
    for label, who, number in (
        ("a fetch of the member", member, epoch),
        ("a fetch of an old epoch", member, epoch - 1),
        ("a fetch of a stranger", "stranger", epoch),
        ("a fetch of nobody", None, -1),
    ):
        request2 = fetch_offsets({group: {"t": [0]}}, ids, member=who, epoch=number)
        await talk.ask(f"{label} {group}", request2, versions(OffsetFetchRequest, 9))
    await talk.ask(f"delete offsets of {group}", delete_offsets(group, {"t": [0], "u": [0]}))
    await talk.ask(f"delete {group}", DeleteGroupsRequest(groups_names=[group]), 2)
    other = heartbeat(group, member, epoch, subscribed_topic_names=["u"])
    moved = await talk.ask(f"subscribes to another {group}", other, version)
    gave = heartbeat(group, member, moved.member_epoch, owned={})
    await talk.ask(f"has given up {group}", gave, version)
    await talk.ask(f"describe again {group}", describe(group))
    await talk.ask(f"an old epoch {group}", heartbeat(group, member, epoch), version)
    await talk.ask(f"leave {group}", heartbeat(group, member, -1), version)
    await talk.ask(f"leave again {group}", heartbeat(group, member, -1), version)
    await talk.ask(f"describe after {group}", describe(group))
    await talk.ask(f"delete after {group}", DeleteGroupsRequest(groups_names=[group]), 2)


async def _refusals(talk: Talk, every: range) -> None:
    await talk.ask("no group", heartbeat("", "m", 0), every)
    await talk.ask("no member id", heartbeat("g", "", 0), every[1:])
    await talk.ask("an unknown group", heartbeat("g", "m", 3), every)
    await talk.ask("leave an unknown group", heartbeat("g", "m", -1), every)
    await talk.ask("leave for a while an unknown group", heartbeat("g", "m", -2), every)
    await talk.ask("a strange epoch", heartbeat("g", "m", -3), every)
    await talk.ask("no timeout", heartbeat("g", "m", 0, rebalance_timeout_ms=-1), every)
    await talk.ask("no topics", heartbeat("g", "m", 0, subscribed_topic_names=None), every)
    await talk.ask("an empty instance", heartbeat("g", "m", 0, instance_id=""), every)
    await talk.ask("an empty rack", heartbeat("g", "m", 0, rack_id=""), every)
    await talk.ask("an unknown assignor", heartbeat("g", "m", 0, server_assignor="odd"), every)
    await talk.ask("a bad pattern", heartbeat("g", "m", 0, subscribed_topic_regex="("), every[1:])
    owned = heartbeat("g", "m", 0, owned={b"\x77" * 16: [0]})
    await talk.ask("owns something at once", owned, every)
    await talk.ask("no topics at all", heartbeat("empty", "m", 0, subscribed_topic_names=[]), every)
    await talk.ask("an unknown topic", heartbeat("u", "m", 0, subscribed_topic_names=["v"]), every)


async def _two(talk: Talk, ids: dict[str, bytes]) -> None:
    both = {ids["t"]: [0, 1]}
    one = await talk.ask("first joins", heartbeat("two", "a", 0))
    await talk.ask("first owns both", heartbeat("two", "a", one.member_epoch, owned=both))
    two = await talk.ask("second joins", heartbeat("two", "b", 0))
    await talk.ask("third is too many", heartbeat("two", "c", 0))
    gives = await talk.ask("first hears", heartbeat("two", "a", one.member_epoch))
    await talk.ask("second waits", heartbeat("two", "b", two.member_epoch, owned={}))
    await talk.ask("describe while revoking", describe("two"))
    kept = heartbeat("two", "a", gives.member_epoch, owned={ids["t"]: [0]})
    one = await talk.ask("first has given one up", kept)
    await talk.ask("second gets it", heartbeat("two", "b", two.member_epoch))
    await talk.ask("describe two", describe("two"))
    for label, partitions, text in (
        ("what is its own, of the epoch before", [0], ""),
        ("what it gave up beside it", [0, 1], ""),
        ("a long text for what it gave up", [1], "x" * 5000),
    ):
        offsets = {"t": dict.fromkeys(partitions, 3)}
        late = commit("two", offsets, ids, member="a", epoch=gives.member_epoch, metadata=text)
        await talk.ask(f"first commits {label}", late, versions(OffsetCommitRequest, 9))
    await talk.ask("what first has committed", fetch_offsets({"two": None}, ids), 9)
    await talk.ask("first leaves", heartbeat("two", "a", -1))
    await talk.ask("second gets all", heartbeat("two", "b", two.member_epoch))
    await talk.ask("describe one", describe("two"))


async def _static(talk: Talk) -> None:
    one = await talk.ask("static join", heartbeat("static", "a", 0, instance_id="i"))
    await talk.ask("static twin", heartbeat("static", "b", 0, instance_id="i"))
    away = heartbeat("static", "a", -2, instance_id="i")
    await talk.ask("static goes for a while", away)
    await talk.ask("describe static away", describe("static"))
    await talk.ask("static comes back", heartbeat("static", "b", 0, instance_id="i"))
    gone = heartbeat("static", "a", one.member_epoch, instance_id="i")
    await talk.ask("the one before", gone)
    await talk.ask("describe static", describe("static"))
    await talk.ask("static leaves", heartbeat("static", "b", -1, instance_id="i"))


async def _other_protocol(talk: Talk, ids: dict[str, bytes]) -> None:
    await talk.ask("consumer first", heartbeat("mixed", "a", 0))
    await talk.ask("classic heartbeat", beat("mixed", "a", 1))
    await talk.ask("classic sync", sync("mixed", "a", 1, []), 5)
    await talk.ask("classic leave", leave("mixed", ("x", None)), 5)
    await talk.ask("classic describe", DescribeGroupsRequest(groups=["mixed"]), range(5, 7))
    await talk.ask("consumer leaves", heartbeat("mixed", "a", -1))
    strangers = (("a stranger", None), ("a static stranger", "i"))
    for label, instance in strangers:
        late = join("mixed", "stranger", instance=instance)
        await talk.ask(f"{label} joins the empty group", late, versions(JoinGroupRequest, 5))
    await talk.ask("the empty group stays", describe("mixed"))
    answer = await talk.ask("classic joins the empty group", join("mixed"), 3)
    name_text(talk, answer.member_id, "<classic>")
    await talk.ask("list mixed", ListGroupsRequest(types_filter=["classic"]))
    await talk.ask("commit without a group", commit("simple", {"t": {0: 1}}, ids), 9)
    await talk.ask("consumer joins the simple group", heartbeat("simple", "a", 0))
    await talk.ask("its offsets stay", fetch_offsets({"simple": None}, ids), 9)
