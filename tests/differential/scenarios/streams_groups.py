"""Streams groups: members, topologies, obstacles, tasks that move, descriptions, bad input.

Apache Kafka 4.4 is asked: its versions of these APIs are served.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from moldau.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    Topology,
)
from moldau.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from tests.broker.coordinator.streams.topologies import (
    WORD_COUNT,
    internal,
    subtopology,
    topology,
)
from tests.differential.group_requests import commit, coordinated
from tests.differential.talk import Talk

SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": "3",
}
GROUP = "app"
INTERNAL = ("app-count-changelog", "app-count-repartition")
Parts = dict[str, tuple[int, ...]]


def ids(parts: Parts) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=list(parts[each])) for each in parts]


def beat(
    member: str, epoch: int, active: Parts | None = None, **more: Any
) -> StreamsGroupHeartbeatRequest:
    """A heartbeat of a member that stays, and may report its active tasks."""
    fields: dict[str, Any] = {"group_id": GROUP, "endpoint_information_epoch": 0}
    if active is not None:
        fields |= {"active_tasks": ids(active), "standby_tasks": [], "warmup_tasks": []}
    return StreamsGroupHeartbeatRequest(member_id=member, member_epoch=epoch, **(fields | more))


def join(
    member: str, given: Topology | None = WORD_COUNT, **more: Any
) -> StreamsGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "topology": given,
        "process_id": f"process-of-{member}",
        "client_tags": [],
    }
    return beat(member, 0, **({"active": {}} | fields | more))


def describe(*groups: str) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


async def created(talk: Talk) -> None:
    """The internal topics are there when this returns."""
    topics = [MetadataRequestTopic(name=name) for name in INTERNAL]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    async def are_there() -> bool:
        answer = await talk.send(request, MetadataResponse)
        return all(len(each.partitions) == 2 for each in answer.topics)

    await talk.until(are_there)
    await talk.settled()


async def is_loaded(talk: Talk) -> bool:
    """Whether the group's coordinator has read its log."""
    answer = await talk.send(beat("a", 1), StreamsGroupHeartbeatResponse)
    return answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def scenario(talk: Talk) -> None:
    await coordinated(talk)
    await readiness(talk)
    await moves(talk)
    await fences(talk)
    await refusals(talk)
    await obstacles(talk)
    await ends(talk)


async def readiness(talk: Talk) -> None:
    """A group waits for its topics."""
    await talk.until(partial(is_loaded, talk))
    await talk.ask("stays in an unknown group", beat("a", 1))
    await talk.ask("leaves an unknown group", beat("a", -1))
    await talk.ask("joins without topics", join("a"))
    await talk.ask("not ready", describe(GROUP, "nobody"), (0, 1))
    await talk.topic("lines", 2)
    await talk.settled()
    await talk.ask("internal topics are missing", beat("a", 2))
    await created(talk)
    await talk.ask("gets all tasks", beat("a", 3))
    await talk.ask("nothing new", beat("a", 4, {"0": (0, 1), "1": (0, 1)}))
    await talk.ask("ready", describe(GROUP))


async def moves(talk: Talk) -> None:
    """A second member gets its half after the first has given it up."""
    host: dict[str, Any] = {"user_endpoint": Endpoint(host="h", port=80), "rack_id": "r"}
    tags = [KeyValue(key="zone", value="z")]
    await talk.ask("another joins", join("b", **host, client_tags=tags))
    await talk.ask("it waits", beat("b", 5, {}))
    await talk.ask("the first hears", beat("a", 4))
    await talk.ask("has not given up", beat("a", 4, {"0": (0, 1), "1": (0, 1)}))
    await talk.ask("while it moves", describe(GROUP))
    await talk.ask("has given up", beat("a", 4, {"0": (0,), "1": (0,)}))
    await talk.ask("gets what is free", beat("b", 5, {}))
    await talk.ask("after the move", describe(GROUP))


async def fences(talk: Talk) -> None:
    """Epochs that are too old or too new, for heartbeats and for commits."""
    await talk.ask("the epoch before, without tasks", beat("a", 4))
    await talk.ask("the epoch before, with its tasks", beat("a", 4, {"0": (0,), "1": (0,)}))
    await talk.ask("an epoch ahead", beat("a", 9))
    await talk.ask("an unknown member", beat("z", 5), (0, 1))
    for label, member, epoch, partition in (
        ("commits", "a", 5, 0),
        ("commits with the epoch before", "a", 4, 0),
        ("commits for another with the epoch before", "a", 4, 1),
        ("commits with an epoch ahead", "a", 6, 0),
        ("commits as an unknown member", "z", 5, 0),
        ("commits as none", "", -1, 0),
    ):
        offsets = {"lines": {partition: 7}}
        request = commit(GROUP, offsets, {}, member=member, epoch=epoch)
        await talk.ask(label, request, 9)


async def refusals(talk: Talk) -> None:
    """Heartbeats that are invalid in any group."""
    other = topology(subtopology("0", "lines"))
    sized = subtopology("0", "lines")
    sized.state_changelog_topics = [internal("log", 3)]
    for label, request in (
        ("another topology", join("c", other)),
        ("leaves for a while", beat("c", -2)),
        ("an epoch below -2", beat("c", -3)),
        ("no rebalance timeout", join("c", rebalance_timeout_ms=-1)),
        ("joins with tasks", join("c", active={"0": (0,)})),
        ("joins without a list of tasks", join("c", active=None)),
        ("joins without a topology", join("c", None)),
        ("a topology later", beat("a", 5, topology=WORD_COUNT)),
        ("tasks of one role", beat("a", 5, active_tasks=[])),
        ("no member id", join("")),
        ("no group id", join("c", group_id="")),
        ("an empty rack", join("c", rack_id="")),
        ("a task of no subtopology", beat("a", 5, {"7": (0,)})),
        ("a task beyond the others", beat("a", 5, {"0": (9,)})),
        ("a changelog with a size", join("c", topology(sized), group_id="sized")),
    ):
        await talk.ask(label, request)
    await talk.ask("the graph of a topology", graph())


def graph() -> StreamsGroupTopologyDescriptionUpdateRequest:
    """A graph without nodes."""
    described = TopologyDescription(subtopologies=[], global_stores=[])
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=GROUP, member_id="a", topology_epoch=0, topology_description=described
    )


async def obstacles(talk: Talk) -> None:
    """Topologies that do not fit the topics, or no topics at all."""
    await talk.topic("three", 3)
    await talk.topic("small-log", 1)
    await talk.settled()
    sources = topology(subtopology("0", "lines", "three", together=[((0, 1), ())]))
    fixed = topology(
        subtopology("0", "lines", sinks=["moved"]),
        subtopology("1", "three", repartitions=[internal("moved", 4)], together=[((0,), (0,))]),
    )
    circle = topology(subtopology("0", repartitions=[internal("circle")], sinks=["circle"]))
    unwritten = topology(
        subtopology("0", "lines"), subtopology("1", repartitions=[internal("unwritten")])
    )
    for label, given in (
        ("missing sources", topology(subtopology("0", "y", "x"))),
        ("sources of different sizes", sources),
        ("a repartition topic with a size that does not fit", fixed),
        (
            "a changelog of another size",
            topology(subtopology("0", "lines", changelogs=["small-log"])),
        ),
        ("a circle of repartition topics", circle),
        ("a repartition topic without a writer", unwritten),
        ("a subtopology without topics", topology(subtopology("0"))),
        ("a topic of the broker", topology(subtopology("0", "__consumer_offsets"))),
        ("a name that no topic has", topology(subtopology("0", "a b"))),
    ):
        await talk.ask(label, join("c", given, group_id=label.replace(" ", "-")))


async def ends(talk: Talk) -> None:
    """Members leave, one asks the application to stop, groups are deleted."""
    await talk.ask("stops the application", beat("a", 5, shutdown_application=True))
    await talk.ask("hears of it", beat("b", 5))
    await talk.ask("leaves", beat("a", -1))
    await talk.ask("has left", beat("a", 5))
    await talk.ask("gets the rest", beat("b", 5, {"0": (1,), "1": (1,)}))
    await talk.ask("delete a group with members", DeleteGroupsRequest(groups_names=[GROUP]))
    await talk.ask("the last leaves", beat("b", -1))
    await talk.ask("empty", describe(GROUP))
    await talk.ask("listed", ListGroupsRequest(states_filter=["Empty"], types_filter=["streams"]))
    await talk.ask("delete a group", DeleteGroupsRequest(groups_names=[GROUP]))
    await talk.ask("deleted", describe(GROUP))
