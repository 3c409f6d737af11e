"""Members of classic groups in every version: one that joins, syncs, lives and leaves; two that
rebalance; static ones; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.protocol.declare import Response
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.differential.group_requests import (
    commit,
    coordinated,
    delete_offsets,
    fetch_offsets,
    name_text,
)
from tests.differential.talk import Talk, versions

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.max.size": "2"}

# A subscription to "t" in version 0 of the consumer protocol, and an assignment of t-0.
SUBSCRIPTION = bytes.fromhex("00000000000100017400000000")
ASSIGNMENT = bytes.fromhex("0000000000010001740000000100000000ffffffff")


def join(
    group: str, member: str = "", *, instance: str | None = None, **more: Any
) -> Callable[[int], JoinGroupRequest]:
    """A consumer with the assignor `range`."""

    def request(version: int) -> JoinGroupRequest:
        names = more.get("protocols", ["range"])
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=more.get("session_ms", 30_000),
            rebalance_timeout_ms=more.get("rebalance_ms", 60_000) if version >= 1 else -1,
            member_id=member,
            group_instance_id=instance if version >= 5 else None,
            protocol_type=more.get("kind", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in names
            ],
            reason="because" if version >= 8 else None,
        )

    return request


def sync(
    group: str, member: str, generation: int, assigned: list[str], **more: Any
) -> Callable[[int], SyncGroupRequest]:
    def request(version: int) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=more.get("instance") if version >= 3 else None,
            protocol_type=more.get("kind", "consumer") if version >= 5 else None,
            protocol_name=more.get("protocol", "range") if version >= 5 else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=ASSIGNMENT)
                for each in assigned
            ],
        )

    return request


def beat(group: str, member: str, generation: int, instance: str | None = None) -> Any:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leave(group: str, *members: tuple[str, str | None]) -> Callable[[int], LeaveGroupRequest]:
    def request(version: int) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id=members[0][0])
        return LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member, group_instance_id=instance)
                for member, instance in members
            ],
        )

    return request


async def scenario(talk: Talk) -> None:
    ids = {"t": await talk.topic("t", 2), "u": await talk.topic("u")}
    await coordinated(talk)
    for version in versions(JoinGroupRequest):
        await _life(talk, version, ids)
    await _refusals(talk)
    await _static(talk)
    await _two(talk, ids)


async def joined(talk: Talk, label: str, group: str, version: int, **more: Any) -> Any:
    """A case or two: since version 4 the id comes first."""
    answer = await talk.ask(label, join(group, **more), version)
    name_text(talk, answer.member_id, f"<{label}>")
    if answer.error_code == 79:
        member = answer.member_id
        answer = await talk.ask(f"{label} again", join(group, member, **more), version)
    return answer


async def _life(talk: Talk, version: int, ids: dict[str, bytes]) -> None:
    group = f"life{version}"
    last = version == versions(JoinGroupRequest).stop - 1
    answer = await joined(talk, f"join {group}", group, version)
    member, generation = answer.member_id, answer.generation_id
    if last:
        await talk.ask("list before the sync", ListGroupsRequest())
        await talk.ask("describe before the sync", DescribeGroupsRequest(groups=[group]))
        await talk.ask("heartbeat before the sync", beat(group, member, generation))
        await talk.ask(
            "commit before the sync",
            commit(group, {"t": {0: 1}}, ids, member=member, epoch=generation),
            8,
        )
    number = min(version, versions(SyncGroupRequest).stop - 1)
    await talk.ask(f"sync {group}", sync(group, member, generation, [member]), number)
    if last:
        await talk.ask("sync twice", sync(group, member, generation, []), 5)
        wrong = sync(group, member, generation, [], protocol="roundrobin")
        await talk.ask("sync with another protocol", wrong, 5)
        wrong = sync(group, member, generation, [], kind="connect")
        await talk.ask("sync with another kind", wrong, 5)
        none = sync(group, member, generation, [], kind=None, protocol=None)
        await talk.ask("sync with no protocol", none, 5)
    number = min(version, versions(HeartbeatRequest).stop - 1)
    await talk.ask(f"heartbeat {group}", beat(group, member, generation), number)
    await talk.ask(f"old heartbeat {group}", beat(group, member, generation + 1), number)
    await talk.ask(f"strange heartbeat {group}", beat(group, "strange", generation), number)
    if last:
        await _while_stable(talk, group, member, generation, ids)
    rejoined = await talk.ask(f"rejoin {group}", join(group, member), version)
    await talk.ask(
        f"sync after rejoin {group}",
        sync(group, member, rejoined.generation_id, [member]),
        min(version, versions(SyncGroupRequest).stop - 1),
    )
    number = min(version, versions(LeaveGroupRequest).stop - 1)
    await talk.ask(f"leave {group}", leave(group, (member, None)), number)
    await talk.ask(f"leave again {group}", leave(group, (member, None)), number)
    await talk.ask(f"heartbeat after {group}", beat(group, member, generation), 4)


async def _while_stable(
    talk: Talk, group: str, member: str, generation: int, ids: dict[str, bytes]
) -> None:
    await talk.ask("list while stable", ListGroupsRequest(), versions(ListGroupsRequest))
    described = DescribeGroupsRequest(groups=[group])
    await talk.ask("describe while stable", described, versions(DescribeGroupsRequest))
    offsets = {"t": {0: 1}}
    every = versions(OffsetCommitRequest)
    for label, who, epoch in (
        ("a commit of the member", member, generation),
        ("a commit of an old generation", member, generation - 1),
        ("a commit of a strange member", "strange", generation),
        ("a commit of nobody", "", -1),
        ("a commit without a generation", member, -1),
    ):
        await talk.ask(label, commit(group, offsets, ids, member=who, epoch=epoch), every)
    await talk.ask("its offsets", fetch_offsets({group: None}, ids, member=member, epoch=1), 9)
    await talk.ask("delete offsets that are read", delete_offsets(group, {"t": [0], "u": [0]}))
    await talk.ask("delete a group with a member", DeleteGroupsRequest(groups_names=[group]), 2)


async def _refusals(talk: Talk) -> None:
    every = versions(JoinGroupRequest)
    await talk.ask("join no group", join(""), every)
    await talk.ask("join with a strange id", join("new", "strange"), every)
    await talk.ask("a short session", join("new", session_ms=10), every)
    await talk.ask("a long session", join("new", session_ms=10_000_000), every)
    await talk.ask("no protocols", join("new", protocols=[]), every)
    await talk.ask("no kind", join("new", kind=""), every)
    number = versions(SyncGroupRequest)
    await talk.ask("sync with no group", sync("", "m", 1, []), number)
    await talk.ask("sync of no group", sync("none", "m", 1, []), number)
    await talk.ask("heartbeat with no group", beat("", "m", 1), versions(HeartbeatRequest))
    await talk.ask("heartbeat of no group", beat("none", "m", 1), versions(HeartbeatRequest))
    number = versions(LeaveGroupRequest)
    await talk.ask("leave with no group", leave("", ("m", None)), number)
    await talk.ask("leave of no group", leave("none", ("m", None)), number)
    await talk.ask("leave of several", leave("none", ("m", None), ("", "i")), number[3:])


async def _static(talk: Talk) -> None:
    answer = await talk.ask("static join", join("static", instance="i"), 9)
    name_text(talk, answer.member_id, "<static>")
    member = answer.member_id
    await talk.ask("static sync", sync("static", member, 1, [member], instance="i"), 5)
    await talk.ask("static heartbeat", beat("static", member, 1, "i"), 4)
    await talk.ask("heartbeat of another instance", beat("static", member, 1, "j"), 4)
    back = await talk.ask("static join again", join("static", instance="i"), 9)
    name_text(talk, back.member_id, "<static again>")
    await talk.ask("heartbeat of the first", beat("static", member, 1, "i"), 4)
    await talk.ask("heartbeat of the second", beat("static", back.member_id, 1, "i"), 4)
    await talk.ask("sync of the second", sync("static", back.member_id, 1, [], instance="i"), 5)
    await talk.ask("describe static", DescribeGroupsRequest(groups=["static"]))
    await talk.ask("an admin removes", leave("static", ("", "i"), ("", "j"), ("m", None)), 5)
    await talk.ask("describe after", DescribeGroupsRequest(groups=["static"]))


async def _two(talk: Talk, ids: dict[str, bytes]) -> None:
    one = await joined(talk, "first", "two", 9)
    await talk.ask("first syncs", sync("two", one.member_id, 1, [one.member_id]), 5)
    other = await talk.ask("second asks for an id", join("two"), 9)
    name_text(talk, other.member_id, "<second>")
    await talk.ask("wrong kind", join("two", kind="connect"), 9)
    await talk.ask("wrong protocol", join("two", protocols=["sticky"]), 9)

    async def first_rejoins() -> None:
        await talk.pause(0.3)
        await talk.send(beat("two", one.member_id, 1), Response)
        await talk.send(join("two", one.member_id)(9), JoinGroupResponse, 9)

    await talk.ask_while(
        "second joins", join("two", other.member_id)(9), 9, first_rejoins, wait_ms=2000
    )
    await talk.ask("list in the rebalance", ListGroupsRequest())
    await talk.ask("first heartbeats", beat("two", one.member_id, 2), 4)
    await talk.ask("a third is too many", join("two"), 9)
    await talk.ask("a third of version 3 is too many", join("two"), 3)

    async def leader_syncs() -> None:
        both = [one.member_id, other.member_id]
        request = sync("two", one.member_id, 2, both)(5)
        await talk.pause(0.3)
        await talk.send(request, Response, 5)

    await talk.ask_while(
        "second syncs", sync("two", other.member_id, 2, [])(5), 5, leader_syncs, wait_ms=2000
    )
    await talk.ask("describe two", DescribeGroupsRequest(groups=["two"]))
    await talk.ask("first leaves", leave("two", (one.member_id, None)), 5)
    await talk.ask("second hears", beat("two", other.member_id, 2), 4)
    await talk.ask("describe one", DescribeGroupsRequest(groups=["two"]))
