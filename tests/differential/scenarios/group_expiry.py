"""Members that a coordinator gives up: those that fall silent, and those that a rebalance waits for
in vain, under both protocols. The others get what they had; of them nothing is taken any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Response
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.join_group import JoinGroupResponse
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from tests.differential.group_requests import (
    commit,
    coordinated,
    delete_offsets,
    fetch_offsets,
    name_text,
)
from tests.differential.scenarios.group_consumers import describe, heartbeat
from tests.differential.scenarios.group_members import beat, join, joined, leave, sync
from tests.differential.talk import Talk, versions

# Of a member of a classic group, of every member of a consumer group, and of a rebalance. That it
# was not given up at once is seen from half of it on: the member spoke a little before.
SESSION_MS = 2000
CONSUMER_SESSION_MS = 3000
REBALANCE_MS = 1500

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MS),
    "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS),
}


async def scenario(talk: Talk) -> None:
    ids = {"t": await talk.topic("t", 2)}
    await coordinated(talk)
    for version in (0, 9):
        await _alone(talk, version, ids)
    await _follower_is_silent(talk, ids)
    await _leader_is_silent(talk)
    await _does_not_rejoin(talk)
    await _follower_does_not_sync(talk)
    await _leader_does_not_sync(talk)
    await _consumer_alone(talk, ids)
    await _consumer_is_silent(talk, ids)
    await _consumer_does_not_revoke(talk, ids)


def fails_with(code: ErrorCode) -> Callable[[Any], bool]:
    return lambda answer: bool(answer.error_code == code)


def is_empty(described: Any) -> bool:
    """Has the one group that is described no members left?"""
    return not described.groups[0].members


def is_past(epoch: int) -> Callable[[Any], bool]:
    """Is the member that sent a heartbeat in a later epoch?"""
    return lambda answer: bool(answer.member_epoch > epoch)


async def pair(
    talk: Talk,
    group: str,
    first: dict[str, Any] | None = None,
    second: dict[str, Any] | None = None,
) -> tuple[str, str]:
    """Ids of two members in generation 2, of which none has synced; the first leads. What they say
    when they join may be given."""
    first, second = first or {}, second or {}
    one = await joined(talk, f"first of {group}", group, 9, **first)
    await talk.send(sync(group, one.member_id, 1, [one.member_id])(5), Response, 5)
    own = ""
    if "instance" not in second:
        own = (await talk.send(join(group, **second)(9), JoinGroupResponse, 9)).member_id
        name_text(talk, own, f"<second of {group}>")

    async def hears() -> bool:
        heard = await talk.send(beat(group, one.member_id, 1), Response)
        return fails_with(ErrorCode.REBALANCE_IN_PROGRESS)(heard)

    async def first_rejoins() -> None:
        await talk.until(hears)
        await talk.send(join(group, one.member_id, **first)(9), JoinGroupResponse, 9)

    request = join(group, own, **second)(9)
    two = await talk.ask_while(f"second of {group}", request, 9, first_rejoins, wait_ms=SESSION_MS)
    name_text(talk, two.member_id, f"<second of {group}>")
    return one.member_id, two.member_id


async def stable_pair(talk: Talk, group: str, **more: dict[str, Any]) -> tuple[str, str]:
    """Ids of two members of a group, each of which has its share; the first leads."""
    one, two = await pair(talk, group, **more)
    await talk.ask(f"{group}, first syncs", sync(group, one, 2, [one, two]), 5)
    await talk.ask(f"{group}, second syncs", sync(group, two, 2, []), 5)
    return one, two


async def _alone(talk: Talk, version: int, ids: dict[str, bytes]) -> None:
    group = f"alone{version}"
    one = await joined(talk, f"{group} joins", group, version, session_ms=SESSION_MS)
    member = one.member_id
    await talk.ask(f"{group} syncs", sync(group, member, 1, [member]), min(version, 5))
    mine = commit(group, {"t": {0: 4}}, ids, member=member, epoch=1)
    await talk.ask(f"{group} commits", mine, 8)
    described = DescribeGroupsRequest(groups=[group])
    await talk.ask_until(f"{group} expires", described, 6, is_empty, wait_ms=SESSION_MS // 2)
    await talk.ask(f"{group} is late", beat(group, member, 1), 4)
    await talk.ask(f"{group} commits late", mine, versions(OffsetCommitRequest))
    await talk.ask(f"{group} keeps offsets", fetch_offsets({group: None}, ids), 9)
    await talk.ask(f"{group} is read by nobody", delete_offsets(group, {"t": [0]}))
    await joined(talk, f"{group} joins anew", group, version)


async def _hears_late(talk: Talk, label: str, beats: Any, after_ms: int) -> None:
    """Whose heartbeat it is has to rejoin, since another one was given up after so long."""
    must_rejoin = fails_with(ErrorCode.REBALANCE_IN_PROGRESS)
    await talk.ask_until(label, beats, 4, must_rejoin, wait_ms=after_ms // 2)


async def _follower_is_silent(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "follower"
    one, two = await stable_pair(talk, group, second={"session_ms": SESSION_MS})
    await _hears_late(talk, "the leader hears of it", beat(group, one, 2), SESSION_MS)
    await talk.ask("describe without the follower", DescribeGroupsRequest(groups=[group]))
    await talk.ask("the follower beats", beat(group, two, 2), range(5))
    late = commit(group, {"t": {0: 4}}, ids, member=two, epoch=2)
    await talk.ask("the follower commits", late, versions(OffsetCommitRequest))
    await talk.ask("the follower syncs", sync(group, two, 2, []), 5)
    await talk.ask("the follower joins by its id", join(group, two), 9)
    await talk.ask("the follower leaves", leave(group, (two, None)), 5)
    await talk.ask("the leader rejoins", join(group, one), 9)
    await talk.ask("the leader syncs", sync(group, one, 3, [one]), 5)
    await talk.ask("describe the leader", DescribeGroupsRequest(groups=[group]))


async def _leader_is_silent(talk: Talk) -> None:
    group = "leader"
    one, two = await stable_pair(talk, group, first={"session_ms": SESSION_MS})
    await _hears_late(talk, "the follower hears of it", beat(group, two, 2), SESSION_MS)
    await talk.ask("the leader beats", beat(group, one, 2), 4)
    await talk.ask("the follower leads", join(group, two), 9)
    await talk.ask("the new leader syncs", sync(group, two, 3, [two]), 5)


async def _does_not_rejoin(talk: Talk) -> None:
    """The rebalance timeout: the new member gets its answer when it is over."""
    group = "rejoin"
    one = await joined(talk, "the first joins", group, 9, rebalance_ms=REBALANCE_MS)
    await talk.ask("the first syncs", sync(group, one.member_id, 1, [one.member_id]), 5)
    given = await talk.ask("the second asks for an id", join(group), 9)
    name_text(talk, given.member_id, "<second>")
    waits = join(group, given.member_id, rebalance_ms=REBALANCE_MS)
    await talk.ask("the second waits for the first", waits, 9, wait_ms=REBALANCE_MS)
    await talk.ask("the first comes too late", beat(group, one.member_id, 1), 4)
    await talk.ask("the first rejoins too late", join(group, one.member_id), 9)
    await talk.ask("the second syncs", sync(group, given.member_id, 2, [given.member_id]), 5)
    await talk.ask("describe the second", DescribeGroupsRequest(groups=[group]))


async def _follower_does_not_sync(talk: Talk) -> None:
    group = "sync"
    both = {"rebalance_ms": REBALANCE_MS}
    one, two = await pair(talk, group, both, both)
    await talk.ask("only the leader syncs", sync(group, one, 2, [one, two]), 5)
    await _hears_late(talk, "the leader has to rejoin", beat(group, one, 2), REBALANCE_MS)
    await talk.ask("a beat of who did not sync", beat(group, two, 2), 4)
    await talk.ask("a sync that is too late", sync(group, two, 2, []), 5)
    await talk.ask("describe who did sync", DescribeGroupsRequest(groups=[group]))


async def _leader_does_not_sync(talk: Talk) -> None:
    group = "plan"
    both = {"rebalance_ms": REBALANCE_MS}
    one, two = await pair(talk, group, both, both)
    waits = sync(group, two, 2, [])
    await talk.ask("the follower waits for a plan", waits, 5, wait_ms=REBALANCE_MS // 2)
    await talk.ask("a beat of who made no plan", beat(group, one, 2), 4)
    await talk.ask("a beat of who waited for it", beat(group, two, 2), 4)
    await talk.ask("a plan that is too late", sync(group, one, 2, [one, two]), 5)


async def _consumer_alone(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "consumer"
    one = await talk.ask("consumer joins", heartbeat(group, "a", 0))
    epoch = one.member_epoch
    mine = commit(group, {"t": {0: 4}}, ids, member="a", epoch=epoch)
    await talk.ask("consumer commits", mine, 9)
    half = CONSUMER_SESSION_MS // 2
    await talk.ask_until("consumer expires", describe(group), 1, is_empty, wait_ms=half)
    await talk.ask("consumer is late", heartbeat(group, "a", epoch), range(2))
    await talk.ask("consumer commits late", mine, versions(OffsetCommitRequest))
    await talk.ask("consumer keeps offsets", fetch_offsets({group: None}, ids), 9)
    await talk.ask("consumer joins anew", heartbeat(group, "a", 0))
    await talk.ask("consumer leaves", heartbeat(group, "a", -1))
    await talk.ask("consumer leaves a group", DeleteGroupsRequest(groups_names=[group]), 2)


async def consumer_pair(
    talk: Talk, group: str, ids: dict[str, bytes], **first: Any
) -> tuple[int, int]:
    """The epochs of "a", which owns all of "t" and was told to give one up, and of "b", which waits
    for it."""
    both = {ids["t"]: [0, 1]}
    one = await talk.ask(f"{group}, a joins", heartbeat(group, "a", 0, **first))
    await talk.ask(f"{group}, a owns both", heartbeat(group, "a", one.member_epoch, owned=both))
    two = await talk.ask(f"{group}, b joins", heartbeat(group, "b", 0))
    await talk.ask(f"{group}, a hears", heartbeat(group, "a", one.member_epoch))
    return one.member_epoch, two.member_epoch


async def stable_consumer_pair(talk: Talk, group: str, ids: dict[str, bytes], **first: Any) -> int:
    """The epoch of "a" and "b", which have a partition each."""
    before, epoch = await consumer_pair(talk, group, ids, **first)
    gave = heartbeat(group, "a", before, owned={ids["t"]: [0]})
    await talk.ask(f"{group}, a gives one up", gave)
    await talk.ask(f"{group}, b gets it", heartbeat(group, "b", epoch))
    return epoch


async def _consumer_is_silent(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "silent"
    epoch = await stable_consumer_pair(talk, group, ids)
    half = CONSUMER_SESSION_MS // 2
    owns = heartbeat(group, "b", epoch)
    await talk.ask_until("b gets the other one", owns, 1, is_past(epoch), wait_ms=half)
    await talk.ask("a is late", heartbeat(group, "a", epoch), range(2))
    late = commit(group, {"t": {0: 4}}, ids, member="a", epoch=epoch)
    await talk.ask("a commits late", late, versions(OffsetCommitRequest))
    await talk.ask("a leaves late", heartbeat(group, "a", -1))
    await talk.ask("describe without a", describe(group))
    await talk.ask("a joins anew", heartbeat(group, "a", 0))


async def _consumer_does_not_revoke(talk: Talk, ids: dict[str, bytes]) -> None:
    """It goes on to speak, and to own what it should have given up."""
    group = "keeps"
    before, epoch = await consumer_pair(talk, group, ids, rebalance_timeout_ms=REBALANCE_MS)
    keeps = heartbeat(group, "a", before, owned={ids["t"]: [0, 1]})
    await talk.ask_until(
        "a keeps too much",
        keeps,
        1,
        fails_with(ErrorCode.UNKNOWN_MEMBER_ID),
        wait_ms=REBALANCE_MS // 2,
    )
    await talk.ask("b gets both", heartbeat(group, "b", epoch))
    await talk.ask("describe b", describe(group))
