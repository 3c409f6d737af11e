"""Static members under both protocols: one that comes back as another, one that goes for a while,
one that stays away too long, one that an admin removes; and what the one before may still say."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Response
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest
from moldau.protocol.messages.leave_group import LeaveGroupRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.protocol.messages.sync_group import SyncGroupRequest
from tests.differential.group_requests import commit, coordinated, fetch_offsets, name_text
from tests.differential.scenarios import group_expiry
from tests.differential.scenarios.group_consumers import describe, heartbeat
from tests.differential.scenarios.group_expiry import (
    CONSUMER_SESSION_MS,
    SESSION_MS,
    fails_with,
    is_past,
    stable_consumer_pair,
    stable_pair,
)
from tests.differential.scenarios.group_members import beat, join, leave, sync
from tests.differential.talk import Talk, versions

SETTINGS = group_expiry.SETTINGS

ONE = {"instance": "one"}
TWO = {"instance": "two"}


async def scenario(talk: Talk) -> None:
    ids = {"t": await talk.topic("t", 2), "u": await talk.topic("u")}
    await coordinated(talk)
    await _follower_comes_back(talk, ids)
    await _leader_comes_back(talk)
    await _admin_removes(talk)
    await _stays_away(talk)
    await _consumer_goes_for_a_while(talk, ids)
    await _consumer_comes_back_for_others(talk)
    await _consumer_stays_away(talk, ids)
    await _consumer_is_removed(talk, ids)


async def _follower_comes_back(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "follower"
    leader, before = await stable_pair(talk, group, first=ONE, second=TWO)
    back = await talk.ask("the follower comes back", join(group, **TWO), 9)
    name_text(talk, back.member_id, "<the follower again>")
    await talk.ask("the leader does not notice", beat(group, leader, 2, "one"), 4)
    since = versions(HeartbeatRequest, 3)
    await talk.ask("a beat of the one before", beat(group, before, 2, "two"), since)
    await talk.ask("a beat without its instance", beat(group, before, 2), since)
    late = sync(group, before, 2, [], instance="two")
    await talk.ask("a sync of the one before", late, versions(SyncGroupRequest, 3))
    rejoin = join(group, before, **TWO)
    await talk.ask("a join of the one before", rejoin, versions(JoinGroupRequest, 5))
    wrong = commit(group, {"t": {0: 4}}, ids, member=before, epoch=2, instance="two")
    await talk.ask("a commit of the one before", wrong, versions(OffsetCommitRequest, 7))
    gone = leave(group, (before, "two"), (before, None))
    await talk.ask("a leave of the one before", gone, versions(LeaveGroupRequest, 3))
    await talk.ask("its share is still there", sync(group, back.member_id, 2, [], **TWO), 5)
    right = commit(group, {"t": {0: 5}}, ids, member=back.member_id, epoch=2, instance="two")
    await talk.ask("a commit of the new one", right, versions(OffsetCommitRequest, 7))
    await talk.ask("describe both", DescribeGroupsRequest(groups=[group]))


async def _leader_comes_back(talk: Talk) -> None:
    group = "leader"
    _, follower = await stable_pair(talk, group, first=ONE, second=TWO)
    for version in versions(JoinGroupRequest, 5):
        back = await talk.ask(f"the leader comes back by {version}", join(group, **ONE), version)
        name_text(talk, back.member_id, f"<the leader by {version}>")
        own = sync(group, back.member_id, 2, [], instance="one")
        await talk.ask(f"its share after {version}", own, min(version, 5))
    await talk.ask("the follower does not notice", beat(group, follower, 2, "two"), 4)


async def _admin_removes(talk: Talk) -> None:
    group = "removed"
    leader, follower = await stable_pair(talk, group, first=ONE, second=TWO)
    await talk.ask("an instance by another id", leave(group, (leader, "two")), 5)
    await talk.ask("an admin removes the follower", leave(group, ("", "two")), 5)
    await talk.ask("an admin removes it again", leave(group, ("", "two")), 5)
    await talk.ask("the removed one beats", beat(group, follower, 2, "two"), 4)
    await talk.ask("the leader has to rejoin", beat(group, leader, 2, "one"), 4)
    await talk.ask("the leader rejoins", join(group, leader, **ONE), 9)
    await talk.ask("the leader plans", sync(group, leader, 3, [leader], instance="one"), 5)
    await talk.ask("describe the leader", DescribeGroupsRequest(groups=[group]))


async def _stays_away(talk: Talk) -> None:
    group = "away"
    leader, follower = await stable_pair(
        talk, group, first=ONE, second={"session_ms": SESSION_MS, **TWO}
    )
    await talk.ask_until(
        "the leader hears that one stays away",
        beat(group, leader, 2, "one"),
        4,
        fails_with(ErrorCode.REBALANCE_IN_PROGRESS),
        wait_ms=SESSION_MS // 2,
    )
    await talk.ask("the one that was away beats", beat(group, follower, 2, "two"), 4)
    await talk.ask("it is nobody to be removed", leave(group, ("", "two")), 5)

    async def both_are_there() -> bool:
        request = DescribeGroupsRequest(groups=[group])
        described = await talk.send(request, DescribeGroupsResponse)
        return len(described.groups[0].members) == 2

    async def leader_rejoins() -> None:
        await talk.until(both_are_there)
        await talk.send(join(group, leader, **ONE)(9), Response, 9)

    again = join(group, **TWO)(9)
    back = await talk.ask_while("it joins anew", again, 9, leader_rejoins, wait_ms=SESSION_MS)
    name_text(talk, back.member_id, "<it that joined anew>")


async def _consumer_goes_for_a_while(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "while"
    epoch = await stable_consumer_pair(talk, group, ids, instance_id="i")
    offsets = {"t": {0: 4}}
    old = commit(group, offsets, ids, member="a", epoch=epoch, instance="i")
    away = heartbeat(group, "a", -2, instance_id="i")
    await talk.ask("a twin", heartbeat(group, "c", 0, instance_id="i"), range(2))
    await talk.ask("a stranger goes for a while", heartbeat(group, "c", -2, instance_id="i"))
    await talk.ask("b, not static, goes for a while", heartbeat(group, "b", -2))
    await talk.ask("b is back", heartbeat(group, "b", 0))
    await talk.ask("a goes for a while", away)
    await talk.ask("describe while a is away", describe(group))
    await talk.ask("a commits while away", old, versions(OffsetCommitRequest, 7))
    await talk.ask("nobody commits while a is away", commit(group, offsets, ids), 9)
    asks = fetch_offsets({group: None}, ids, member="a", epoch=epoch)
    await talk.ask("a fetches while away", asks, versions(OffsetFetchRequest, 9))
    await talk.ask("a beats while away", heartbeat(group, "a", epoch, instance_id="i"))
    await talk.ask("it comes back as c", heartbeat(group, "c", 0, instance_id="i"))
    await talk.ask("describe with c", describe(group))
    await talk.ask("a beats", heartbeat(group, "a", epoch, instance_id="i"))
    await talk.ask("a beats without its instance", heartbeat(group, "a", epoch))
    await talk.ask("a commits", old, versions(OffsetCommitRequest, 7))
    await talk.ask("a goes for a while again", away)
    await talk.ask("a leaves", heartbeat(group, "a", -1, instance_id="i"))
    await talk.ask("c leaves", heartbeat(group, "c", -1, instance_id="i"))
    await talk.ask("describe without c", describe(group))


async def _consumer_comes_back_for_others(talk: Talk) -> None:
    group = "others"
    await talk.ask("static joins", heartbeat(group, "a", 0, instance_id="i"))
    await talk.ask("static goes", heartbeat(group, "a", -2, instance_id="i"))
    await talk.ask("delete while it is away", DeleteGroupsRequest(groups_names=[group]), 2)
    other = heartbeat(group, "b", 0, instance_id="i", subscribed_topic_names=["u"])
    await talk.ask("it wants another topic now", other)
    await talk.ask("describe what it has", describe(group))


async def _consumer_stays_away(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "long"
    epoch = await stable_consumer_pair(talk, group, ids, instance_id="i")
    await talk.ask("a goes for long", heartbeat(group, "a", -2, instance_id="i"))
    half = CONSUMER_SESSION_MS // 2
    beats = heartbeat(group, "b", epoch)
    await talk.ask_until("b gets what a had", beats, 1, is_past(epoch), wait_ms=half)
    await talk.ask("describe b", describe(group))
    await talk.ask("a comes back late", heartbeat(group, "a", epoch, instance_id="i"))
    await talk.ask("a joins anew", heartbeat(group, "a", 0, instance_id="i"))


async def _consumer_is_removed(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "out"
    epoch = await stable_consumer_pair(talk, group, ids, instance_id="i")
    for label, member in (
        ("an instance by the wrong id", ("b", "i")),
        ("an unknown instance", ("", "j")),
        ("an unknown id", ("c", None)),
        ("an admin removes a", ("", "i")),
        ("an admin removes a again", ("", "i")),
    ):
        await talk.ask(label, leave(group, member), 5)
    await talk.ask("a was removed", heartbeat(group, "a", epoch, instance_id="i"), range(2))
    wrong = commit(group, {"t": {0: 4}}, ids, member="a", epoch=epoch, instance="i")
    await talk.ask("a commits after that", wrong, versions(OffsetCommitRequest, 7))
    await talk.ask("b gets all", heartbeat(group, "b", epoch))
    await talk.ask("describe the rest", describe(group))
    await talk.ask("an admin removes b", leave(group, ("b", None)), 5)
    await talk.ask("b was removed", heartbeat(group, "b", epoch))
    await talk.ask("delete what is empty", DeleteGroupsRequest(groups_names=[group]), 2)
