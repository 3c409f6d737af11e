"""Offsets that are committed without members: OffsetCommit, OffsetFetch, OffsetDelete, and what is
told of the groups that this makes."""

from __future__ import annotations

from typing import Final

from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.differential.group_requests import commit, coordinated, delete_offsets, fetch_offsets
from tests.differential.talk import Talk, versions

SETTINGS = {"offset.metadata.max.bytes": "20"}


DELETE_GROUPS: Final = tuple(range(3))
"""The versions of DeleteGroups of Kafka 4.3."""


async def scenario(talk: Talk) -> None:
    ids = {"t": await talk.topic("t", 3), "u": await talk.topic("u")}
    await coordinated(talk)
    await _commits(talk, ids)
    await _fetches(talk, ids)
    await _listing(talk)
    await _deletes(talk, ids)
    await talk.restart()
    await coordinated(talk)
    await talk.ask("after a restart", fetch_offsets({"g": None}, ids), 9)


async def _commits(talk: Talk, ids: dict[str, bytes]) -> None:
    every = versions(OffsetCommitRequest)
    await talk.ask("commit", commit("g", {"t": {0: 5, 2: 7}, "u": {0: 9}}, ids), every)
    await talk.ask("commit to no group", commit("", {"t": {1: 1}}, ids), every)
    await talk.ask("commit nothing", commit("nothing", {}, ids), every)
    await talk.ask("commit no partitions", commit("nothing", {"t": {}}, ids), every)
    await talk.ask("an unknown topic", commit("g", {"v": {0: 1}}, ids), every)
    await talk.ask("an unknown topic beside", commit("g", {"v": {0: 1}, "t": {1: 3}}, ids), every)
    await talk.ask("an unknown partition", commit("g", {"u": {0: 10, 3: 1}}, ids), every)
    await talk.ask("no text", commit("g", {"t": {0: 6}}, ids, metadata=None), every)
    await talk.ask("a text", commit("g", {"t": {0: 6}}, ids, metadata="x" * 20), every)
    await talk.ask("a long text", commit("g", {"t": {0: 8}}, ids, metadata="x" * 21), every)
    await talk.ask("wide text", commit("g", {"t": {0: 8}}, ids, metadata="\u20ac" * 20), every)
    emoji = "\U0001f600"
    await talk.ask("a text in emoji", commit("g", {"t": {0: 6}}, ids, metadata=emoji * 10), every)
    await talk.ask("too many emoji", commit("g", {"t": {0: 8}}, ids, metadata=emoji * 11), every)
    await talk.ask("a member nobody knows", commit("g", {"t": {0: 1}}, ids, member="m"), every)
    await talk.ask("a generation", commit("g", {"t": {0: 1}}, ids, member="m", epoch=3), every)
    await talk.ask("no such group", commit("h", {"t": {0: 1}}, ids, member="m", epoch=3), every)
    await talk.ask("a negative offset", commit("negative", {"t": {0: -5}}, ids), every)
    await talk.ask("with retention", commit("r", {"t": {1: 4}}, ids, retention_ms=10**9), every[:3])
    ever = commit("r", {"t": {0: 4}}, ids, retention_ms=2**63 - 1)
    await talk.ask("with retention for ever", ever, every[:3])
    static = commit("g", {"t": {0: 1}}, ids, member="m", instance="i")
    await talk.ask("a static member", static, every[5:])


async def _fetches(talk: Talk, ids: dict[str, bytes]) -> None:
    every = versions(OffsetFetchRequest)
    await talk.ask("fetch", fetch_offsets({"g": {"t": [0, 1, 2], "u": [0]}}, ids), every)
    await talk.ask("fetch all", fetch_offsets({"g": None}, ids), every[1:])
    await talk.ask("fetch of none", fetch_offsets({"g": {}}, ids), every)
    await talk.ask("fetch without partitions", fetch_offsets({"g": {"t": []}}, ids), every)
    await talk.ask(
        "fetch what is not there", fetch_offsets({"g": {"t": [9], "v": [0]}}, ids), every
    )
    await talk.ask("fetch of no group", fetch_offsets({"h": {"t": [0]}}, ids), every)
    await talk.ask("fetch all of no group", fetch_offsets({"h": None}, ids), every[1:])
    await talk.ask("fetch of the empty group", fetch_offsets({"": {"t": [1]}}, ids), every)
    await talk.ask("fetch stable", fetch_offsets({"g": {"t": [0]}}, ids, stable=True), every[6:])
    await talk.ask("fetch all stable", fetch_offsets({"g": None}, ids, stable=True), every[6:])
    several = fetch_offsets({"g": {"t": [0]}, "h": {"t": [0]}, "negative": None}, ids)
    await talk.ask("fetch of several groups", several, every[7:])
    member = fetch_offsets({"g": {"t": [0]}}, ids, member="m", epoch=3)
    await talk.ask("fetch of a member", member, every[8:])
    await talk.ask("fetch of no groups", fetch_offsets({}, ids), every[7:])


async def _listing(talk: Talk) -> None:
    every = versions(ListGroupsRequest)
    await talk.ask("list", ListGroupsRequest(), every)
    for states in (["Empty"], ["empty"], ["Stable", "Dead"], ["Odd"], ["Empty", "Odd"]):
        by_state = ListGroupsRequest(states_filter=states)
        await talk.ask(f"list {' '.join(states)}", by_state, every[4:])
    for types in (["classic"], ["Classic"], ["consumer"], ["share", "classic"], ["odd"]):
        by_type = ListGroupsRequest(types_filter=types)
        await talk.ask(f"list of type {' '.join(types)}", by_type, every[5:])
    both = ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"])
    await talk.ask("list by both", both, every[5:])
    groups = ["g", "h", "", "g"]
    every = versions(DescribeGroupsRequest)
    await talk.ask("describe", DescribeGroupsRequest(groups=groups), every)
    await talk.ask("describe nothing", DescribeGroupsRequest(groups=[]), every)
    operations = DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True)
    await talk.ask("describe operations", operations, every[3:])
    for asks in (False, True):
        consumers = ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=asks
        )
        label = f"describe consumers, operations {asks}"
        await talk.ask(label, consumers, versions(ConsumerGroupDescribeRequest))


async def _deletes(talk: Talk, ids: dict[str, bytes]) -> None:
    await talk.ask("delete an offset", delete_offsets("g", {"t": [0, 1]}))
    await talk.ask("delete it again", delete_offsets("g", {"t": [0]}))
    await talk.ask("delete of unknown topics", delete_offsets("g", {"v": [0], "t": [9, 2]}))
    await talk.ask("delete of an unknown topic", delete_offsets("g", {"v": [0]}))
    await talk.ask("delete of no group", delete_offsets("h", {"t": [0]}))
    await talk.ask("delete of no group, unknown topic", delete_offsets("h", {"v": [0]}))
    await talk.ask("delete of the empty group", delete_offsets("", {"t": [0]}))
    await talk.ask("delete nothing", delete_offsets("g", {}))
    await talk.ask("delete no partitions", delete_offsets("g", {"t": []}))
    await talk.ask("what is left", fetch_offsets({"g": None}, ids), 9)
    for version in DELETE_GROUPS:
        group = f"gone{version}"
        await talk.ask(f"commit to {group}", commit(group, {"t": {0: 5}}, ids), 8)
        delete = DeleteGroupsRequest(groups_names=[group, "h", "", group])
        await talk.ask(f"delete {group}", delete, version)
        await talk.ask(f"fetch of {group}", fetch_offsets({group: None}, ids), 9)
    await talk.ask("delete no groups", DeleteGroupsRequest(groups_names=[]), DELETE_GROUPS[-1])
    await talk.ask("list what is left", ListGroupsRequest())
