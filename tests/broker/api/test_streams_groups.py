"""Streams groups through a broker's listener: join, internal topics, describe, commit, delete."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.api.service import BrokerService
from moldau.broker.coordinator.kind import KeyType
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from moldau.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from moldau.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    Topology,
)
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.rights import CREATE_TOPIC, DESCRIBE_GROUP, DESCRIBE_TOPIC, READ_GROUP, Right
from tests.broker.api.rights import Rights
from tests.broker.api.serving import Serving, serving
from tests.broker.coordinator.streams.topologies import WORD_COUNT, subtopology, topology

GROUP = "app"
NO_INTERNALS, DELAYED = 3, 5
DELAY_MS = 3000
DOWNGRADE = 2
ROLES = ("active", "standby", "warmup")


async def coordinated(at: Serving, partitions: int = 2) -> None:
    """The topic that the application reads, and a coordinator."""
    at.cluster.now_ms = 0  # the clock of the node: the controller does not decide too late
    at.create("lines", partitions)
    at.create("__consumer_offsets", 1)
    groups = at.node.coordinators.of(KeyType.GROUP)
    groups.elect(0)
    while not list(groups.loaded()):
        await at.pass_ms(1)


async def join(at: Serving, member: str = "a", given: Topology = WORD_COUNT, **more: Any) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=0,
        endpoint_information_epoch=-1,
        rebalance_timeout_ms=60_000,
        topology=given,
        process_id=f"process-of-{member}",
        client_tags=[],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    for name, value in more.items():
        setattr(request, name, value)
    return await at.ask(request, StreamsGroupHeartbeatResponse)


async def beat(at: Serving, member: str, epoch: int) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id=member, member_epoch=epoch, endpoint_information_epoch=0
    )
    return await at.ask(request, StreamsGroupHeartbeatResponse)


class Reporting:
    """A member that reports how far its copies are: it has none. It does what it is told."""

    def __init__(self, at: Serving, member_id: str) -> None:
        self.at = at
        self.member_id = member_id
        self.epoch = 0
        self.tasks: dict[str, dict[str, list[int]]] = {role: {} for role in ROLES}

    async def join(self) -> None:
        self._hear(await join(self.at, self.member_id, task_offsets=[], task_end_offsets=[]))

    async def beat(self) -> None:
        owned: dict[str, Any] = {
            f"{role}_tasks": [
                TaskIds(subtopology_id=name, partitions=partitions)
                for name, partitions in self.tasks[role].items()
            ]
            for role in ROLES
        }
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=0,
            **owned,
        )
        self._hear(await self.at.ask(request, StreamsGroupHeartbeatResponse))

    def _hear(self, answer: Any) -> None:
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        for role in ROLES:
            told = getattr(answer, f"{role}_tasks")
            if told is not None:
                self.tasks[role] = {each.subtopology_id: each.partitions for each in told}


async def running(at: Serving) -> Any:
    """The answer that gave a member all tasks, with the epoch that it has when nothing is left to
    do."""
    answer = await join(at)
    got = None
    for _ in range(4):
        await at.pass_ms(DELAY_MS)
        answer = await beat(at, "a", answer.member_epoch)
        got = answer if answer.active_tasks else got
    assert got is not None
    got.member_epoch = answer.member_epoch
    return got


async def describe(at: Serving) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    (found,) = (await at.ask(request, StreamsGroupDescribeResponse)).groups
    return found


@serving()
async def test_the_broker_creates_internal_topics_and_assigns_tasks(at: Serving) -> None:
    await coordinated(at)
    first = await join(at)
    assert (first.error_code, first.member_epoch) == (0, 1)
    assert [each.status_code for each in first.status] == [DELAYED, NO_INTERNALS]
    answer = await running(at)
    assert {each.subtopology_id: each.partitions for each in answer.active_tasks} == {
        "0": [0, 1],
        "1": [0, 1],
    }
    topics = at.cluster.image.topics
    for name in ("app-count-repartition", "app-count-changelog"):
        made = topics.by_name(name)
        assert made is not None
        assert len(made.partitions) == 2


@serving(group__streams__initial__rebalance__delay__ms="0")
async def test_tasks_with_short_logs_move_to_a_new_member_at_once(at: Serving) -> None:
    """The coordinator asks the leaders of the changelogs where they end."""
    await coordinated(at)
    for name in ("app-count-repartition", "app-count-changelog"):
        at.create(name, 2)
    members = {"a": Reporting(at, "a")}
    await members["a"].join()
    for _ in range(3):
        await at.pass_ms(DELAY_MS)
        await members["a"].beat()
    assert members["a"].tasks["active"] == {"0": [0, 1], "1": [0, 1]}
    members["b"] = Reporting(at, "b")
    await members["b"].join()
    for _ in range(4):
        for each in members.values():
            await at.pass_ms(DELAY_MS)
            await each.beat()
    for each in members.values():
        assert {name: len(found) for name, found in each.tasks["active"].items()} == {
            "0": 1,
            "1": 1,
        }
        assert each.tasks["warmup"] == {}


@serving()
async def test_the_group_is_listed_and_described(at: Serving) -> None:
    await coordinated(at)
    await running(at)
    (listed,) = (
        await at.ask(ListGroupsRequest(types_filter=["streams"]), ListGroupsResponse)
    ).groups
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "streams",
        "streams",
        "Stable",
    )
    found = await describe(at)
    assert (found.error_code, found.group_state) == (0, "Stable")
    (member,) = found.members
    assert member.assignment == member.target_assignment
    assert [each.subtopology_id for each in found.topology.subtopologies] == ["0", "1"]
    assert found.topology.subtopologies[1].state_changelog_topics[0].partitions == 2


@serving()
async def test_a_member_commits_and_fetches_offsets_in_its_epoch(at: Serving) -> None:
    await coordinated(at)
    epoch = (await running(at)).member_epoch

    async def commit(member_epoch: int) -> int:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata=""
        )
        named = OffsetCommitRequestTopic(name="lines", partitions=[partition])
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=member_epoch,
            member_id="a",
            topics=[named],
        )
        answer = await at.ask(request, OffsetCommitResponse, 9)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    assert await commit(epoch) == ErrorCode.NONE
    assert await commit(epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    group = OffsetFetchRequestGroup(group_id=GROUP, member_id="a", member_epoch=epoch, topics=None)
    answer = await at.ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, 9)
    (topic,) = answer.groups[0].topics
    assert [each.committed_offset for each in topic.partitions] == [7]


@serving()
async def test_a_group_is_deleted_when_its_members_have_left(at: Serving) -> None:
    await coordinated(at)
    await running(at)

    async def delete() -> int:
        answer = await at.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse)
        code: int = answer.results[0].error_code
        return code

    assert await delete() == ErrorCode.NON_EMPTY_GROUP
    assert (await beat(at, "a", -1)).member_epoch == -1
    assert await delete() == ErrorCode.NONE
    assert (await describe(at)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await beat(at, "a", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("name", ["__consumer_offsets", "a b", ""])
def test_topics_that_an_application_may_not_use_are_refused(name: str) -> None:
    @serving()
    async def test(at: Serving) -> None:
        await coordinated(at)
        answer = await join(at, given=topology(subtopology("0", "lines", sinks=[name])))
        assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY

    test()


@serving()
async def test_an_invalid_heartbeat_is_refused(at: Serving) -> None:
    await coordinated(at)
    assert (await join(at, rebalance_timeout_ms=-1)).error_code == ErrorCode.INVALID_REQUEST


@serving()
async def test_nothing_is_served_below_the_level_of_the_feature(at: Serving) -> None:
    await coordinated(at)
    update = FeatureUpdateKey(
        feature="streams.version", max_version_level=0, upgrade_type=DOWNGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=[update])
    assert at.cluster.ask(request, UpdateFeaturesResponse).error_code == 0
    assert (await join(at)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await describe(at)).error_code == ErrorCode.UNSUPPORTED_VERSION


@serving(group__coordinator__rebalance__protocols="classic,consumer")
async def test_nothing_is_served_where_the_settings_leave_it_out(at: Serving) -> None:
    await coordinated(at)
    assert (await join(at)).error_code == ErrorCode.UNSUPPORTED_VERSION


TOPICS = ("lines", "app-count-repartition", "app-count-changelog")


def rights_of(*missing: Right) -> Rights:
    """All rights that a member needs, but for the missing ones."""
    given = [(READ_GROUP, GROUP), (DESCRIBE_GROUP, GROUP)]
    given += [(right, name) for right in (DESCRIBE_TOPIC, CREATE_TOPIC) for name in TOPICS]
    return Rights(*(each for each in given if each[0] not in missing))


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        (READ_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (DESCRIBE_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_member_needs_rights_on_its_group_and_its_topics(missing: Right, code: ErrorCode) -> None:
    @serving()
    async def test(at: Serving) -> None:
        await coordinated(at)
        at.node.authorizer = rights_of(missing)
        assert (await join(at)).error_code == code

    test()


@serving()
async def test_internal_topics_are_created_only_for_a_member_that_may_create_them(
    at: Serving,
) -> None:
    await coordinated(at)
    at.node.authorizer = rights_of(CREATE_TOPIC)
    answer = await join(at)
    details = {each.status_code: each.status_detail for each in answer.status}
    denied = "app-count-changelog, app-count-repartition"
    assert details[NO_INTERNALS].endswith(f"; Unauthorized to CREATE on topics {denied}.")
    assert at.cluster.image.topics.by_name("app-count-changelog") is None
    at.node.authorizer = rights_of()
    await beat(at, "a", answer.member_epoch)
    assert at.cluster.image.topics.by_name("app-count-changelog") is not None


@pytest.mark.parametrize(
    ("missing", "code"),
    [
        (DESCRIBE_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (DESCRIBE_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_description_takes_rights_on_the_group_and_on_all_its_topics(
    missing: Right, code: ErrorCode
) -> None:
    @serving()
    async def test(at: Serving) -> None:
        await coordinated(at)
        await join(at)
        at.node.authorizer = rights_of(missing)
        at.service = BrokerService(at.node)  # it asks for rights since it has an authorizer
        assert (await describe(at)).error_code == code
        at.node.authorizer = rights_of()
        assert (await describe(at)).error_code == ErrorCode.NONE

    test()
