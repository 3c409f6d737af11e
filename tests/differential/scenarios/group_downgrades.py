"""Consumer groups (KIP-848) that turn back into classic ones: whom they refuse before, who may join
then, and what is left of it after a restart."""

from __future__ import annotations

from functools import partial

from moldau.protocol.declare import Response
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.protocol.messages.join_group import JoinGroupRequest
from tests.differential.group_requests import coordinated, name_text
from tests.differential.scenarios import group_consumers
from tests.differential.scenarios.group_consumers import heartbeat
from tests.differential.scenarios.group_members import beat, join, joined, sync
from tests.differential.talk import Talk, versions

SETTINGS = group_consumers.SETTINGS

BOTH = ["range", "roundrobin"]
OTHER = ["roundrobin"]
LAST = versions(JoinGroupRequest).stop - 1


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await coordinated(talk)
    await _another_assignor(talk)
    await _refusals(talk)
    await _after_a_restart(talk)


async def _downgraded(talk: Talk, group: str) -> str:
    """The id of its one member, which supports both assignors and has come in with `range`."""
    one = await joined(talk, f"join {group}", group, LAST, protocols=BOTH)
    await talk.ask(f"sync {group}", sync(group, one.member_id, 1, [one.member_id]), 5)
    await talk.ask(f"a consumer joins {group}", heartbeat(group, "consumer", 0))
    await talk.ask(f"it leaves {group}", heartbeat(group, "consumer", -1))
    return str(one.member_id)


async def _has_members(talk: Talk, group: str, count: int) -> bool:
    described = await talk.send(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
    return len(described.groups[0].members) == count


async def _another_assignor(talk: Talk) -> None:
    group = "other"
    one = await _downgraded(talk, group)
    await talk.ask("describe other", DescribeGroupsRequest(groups=[group]))
    await talk.ask("nothing in common", join(group, protocols=["sticky"]), LAST)
    told = await talk.ask("another assignor", join(group, protocols=OTHER), LAST)
    name_text(talk, told.member_id, "<another>")

    async def one_rejoins() -> None:
        await talk.until(partial(_has_members, talk, group, 2))
        await talk.send(join(group, one, protocols=BOTH)(LAST), Response, LAST)

    request = join(group, told.member_id, protocols=OTHER)(LAST)
    await talk.ask_while("it comes in", request, LAST, one_rejoins, wait_ms=30_000)
    await talk.ask("an older generation", beat(group, one, 2))
    await talk.ask("describe both", DescribeGroupsRequest(groups=[group]))


async def _refusals(talk: Talk) -> None:
    """By the consumer group that it is before."""
    group = "refusing"
    await talk.ask("static consumer", heartbeat(group, "consumer", 0, instance_id="i"))
    since = versions(JoinGroupRequest, 5)
    await talk.ask("a fenced join", join(group, "other", instance="i"), since)
    await talk.ask("an unknown instance", join(group, "other", instance="j"), since)
    await talk.ask("an unknown member", join(group, "other"), versions(JoinGroupRequest))
    await talk.ask("no consumer", join(group, "other", kind="connect"), LAST)
    await talk.ask("no protocols", join(group, "other", protocols=[]), LAST)
    await talk.ask("a second consumer", heartbeat(group, "second", 0))
    await talk.ask("one too many", join(group, "other"), LAST)


async def _after_a_restart(talk: Talk) -> None:
    cut_off = await _downgraded(talk, "open")
    one = await _downgraded(talk, "done")
    await talk.ask("it rejoins", join("done", one, protocols=BOTH), LAST)
    await talk.ask("it syncs", sync("done", one, 3, [one]), 5)
    await talk.restart()
    for group in ("open", "done"):
        await talk.until(partial(_has_members, talk, group, 1))
    await talk.ask("only the chosen one is known", join("open", protocols=OTHER), LAST)
    await talk.ask("it was about to join again", beat("open", cut_off, 2))
    await talk.ask("it need not join again", beat("done", one, 3))
    await talk.ask("describe what is done", DescribeGroupsRequest(groups=["done"]))
