"""Members of consumer groups (KIP-848) that subscribe to a pattern: what it matches, what comes and
goes later, what may not be deleted meanwhile; members that change to names, or to other patterns.
"""

from __future__ import annotations

from typing import Any

from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.differential.group_requests import commit, coordinated, delete_offsets, fetch_offsets
from tests.differential.scenarios.group_consumers import describe, heartbeat
from tests.differential.talk import Talk, versions

SETTINGS = {"group.consumer.assignment.interval.ms": "0"}

# A coordinator looks up a group's patterns at most this often.
REFRESH_MS = 10_000


async def scenario(talk: Talk) -> None:
    ids = {name: await talk.topic(name, 2) for name in ("red-a", "red-b", "blue")}
    await coordinated(talk)
    await _one(talk, ids)
    await _one_takes_names(talk, ids)
    await _two(talk, ids)
    await _names_beside(talk)
    await _matches(talk)


def seeks(group: str, member: str, regex: str, **more: Any) -> ConsumerGroupHeartbeatRequest:
    """Joins for what a pattern matches."""
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": regex, **more}
    return heartbeat(group, member, 0, **fields)


async def comes(talk: Talk, label: str, group: str, member: str, epoch: int) -> int:
    """A case: the heartbeat that brings something else, and whether the look-up before the one that
    finds it put it off; the epoch then."""
    beats = heartbeat(group, member, epoch)
    answer = await talk.ask_until(label, beats, 1, _brings, wait_ms=REFRESH_MS // 2)
    return int(answer.member_epoch)


def _brings(answer: Any) -> bool:
    return answer.assignment is not None


async def _one(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "one"
    every = ["red-a", "red-b", "blue"]
    await talk.ask("commit before", commit(group, {name: {0: 3} for name in every}, ids), 9)
    one = await talk.ask("a joins for red", seeks(group, "a", "red-.*"))
    epoch = await comes(talk, "a gets red", group, "a", one.member_epoch)
    owned = {ids[name]: [0, 1] for name in ("red-a", "red-b")}
    await talk.ask("a owns red", heartbeat(group, "a", epoch, owned=owned))
    await talk.ask("describe red", describe(group), versions(ConsumerGroupDescribeRequest))
    await talk.ask("delete offsets of all", delete_offsets(group, {name: [0] for name in every}))
    await talk.ask("offsets of red stay", fetch_offsets({group: None}, ids), 9)

    ids["red-c"] = await talk.topic("red-c")
    epoch = await comes(talk, "a gets a red one that came", group, "a", epoch)
    await talk.ask("delete offsets of what came", delete_offsets(group, {"red-c": [0]}))
    await talk.ask("describe what came", describe(group))
    await talk.delete("red-c")
    epoch = await comes(talk, "a loses a red one that went", group, "a", epoch)
    await talk.ask("a has lost it", heartbeat(group, "a", epoch, owned=owned))
    await talk.ask("describe what is left", describe(group))


async def _one_takes_names(talk: Talk, ids: dict[str, bytes]) -> None:
    group = "changes"
    one = await talk.ask("b joins for red", seeks(group, "b", "red-.*"))
    epoch = await comes(talk, "b gets red", group, "b", one.member_epoch)
    await talk.ask(
        "commit between", commit(group, {"red-a": {0: 3}}, ids, member="b", epoch=epoch), 9
    )
    bad = heartbeat(group, "b", epoch, subscribed_topic_regex="(")
    await talk.ask("b wants a bad pattern", bad)
    wants = heartbeat(group, "b", epoch, subscribed_topic_regex="", subscribed_topic_names=["blue"])
    moved = await talk.ask("b wants blue by its name", wants)
    gave = heartbeat(group, "b", moved.member_epoch, owned={})
    await talk.ask("b has given up red", gave)
    await talk.ask("describe blue", describe(group))
    await talk.ask("delete offsets of both", delete_offsets(group, {"red-a": [0], "blue": [0]}))
    await talk.ask("b leaves", heartbeat(group, "b", -1))


async def _two(talk: Talk, ids: dict[str, bytes]) -> None:
    """The second wants the same at first, and then something else."""
    group = "two"
    range_first = {"server_assignor": "range"}
    one = await talk.ask("first joins", seeks(group, "a", "red-[ab]", **range_first))
    before = await comes(talk, "first gets red", group, "a", one.member_epoch)
    two = await talk.ask("second joins", seeks(group, "b", "red-[ab]", **range_first))
    await talk.ask("first hears", heartbeat(group, "a", before))
    half = {ids[name]: [0] for name in ("red-a", "red-b")}
    await talk.ask("first gives up half", heartbeat(group, "a", before, owned=half))
    await talk.ask("second gets it", heartbeat(group, "b", two.member_epoch))
    await talk.ask("describe halves", describe(group))
    wants = heartbeat(group, "b", two.member_epoch, subscribed_topic_regex="blue|red-a")
    await talk.ask("second wants something else", wants)
    await talk.ask("describe before the look-up", describe(group))
    await talk.ask("second has given all up", heartbeat(group, "b", two.member_epoch, owned={}))
    await comes(talk, "second gets something else", group, "b", two.member_epoch)
    await talk.ask("first gets what it gave", heartbeat(group, "a", two.member_epoch))
    await talk.ask("describe two patterns", describe(group))
    await talk.ask("delete offsets of each", delete_offsets(group, {"red-b": [0], "blue": [0]}))


async def _names_beside(talk: Talk) -> None:
    group = "beside"
    joins = seeks(group, "a", "red-a", subscribed_topic_names=["blue"])
    one = await talk.ask("by name and pattern", joins)
    await comes(talk, "what the pattern adds", group, "a", one.member_epoch)
    await talk.ask("describe name and pattern", describe(group))


async def _matches(talk: Talk) -> None:
    """Whole names, by the rules of RE2."""
    for number, regex in enumerate(
        (".*", "red|blue", "^bl.+$", "(?i)RED-A", r"\Qred-b\E", "[[:alpha:]]{4}", r"red\W\pL")
    ):
        group = f"matches{number}"
        one = await talk.ask(f"for {regex}", seeks(group, "a", regex))
        await comes(talk, f"matched by {regex}", group, "a", one.member_epoch)
    for regex in ("(?=red).*", r"(r)ed\1", "red{2,1}", "[z-a]", "red{1001}"):
        await talk.ask(f"refused: {regex}", seeks("refused", "a", regex))
