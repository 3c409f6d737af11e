"""What a node tells about its coordinator of groups, asked through its own APIs."""

from __future__ import annotations

from moldau.broker.coordinator.group.consumer.state import GroupState
from moldau.broker.coordinator.group.coordinator import CONSUMER_STATES
from moldau.errors.codes import ErrorCode
from moldau.metrics import HistogramValue, render_prometheus
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.broker.api.serving import Serving, serving
from tests.broker.coordinator.table import commit_request

OFFSETS = "__consumer_offsets"
PREFIX = "moldau.coordinator.group."
DECISIONS = f"{PREFIX}decisions"


def told(at: Serving) -> dict[str, int | float]:
    """Every number that is not nought; of a histogram how often something was observed."""
    found: dict[str, int | float] = {}
    for metric in at.node.metrics.snapshot():
        if metric.name.startswith(PREFIX) and metric.name != DECISIONS:
            ((_, value),) = ((each.attributes, each.value) for each in metric.points)
            number = sum(value.counts) if isinstance(value, HistogramValue) else value
            if number:
                found[metric.name.removeprefix(PREFIX)] = number
    return found


async def loaded(at: Serving, **configs: str) -> None:
    """A coordinator with one partition of the log, and a topic to read."""
    at.create("t", 2)
    at.create(OFFSETS, 1, cleanup__policy="compact", **configs)
    at.node.groups.elect(0)
    assert told(at) == {"partitions.loading": 1}
    await at.pass_ms(10)


async def commit(at: Serving, group: str, partition: int = 0) -> int:
    request = commit_request(group, partition=partition)
    answer = await at.ask(request, OffsetCommitResponse, 8)
    return answer.topics[0].partitions[0].error_code


async def join(at: Serving, group: str) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await at.ask(request, JoinGroupResponse, 3)


@serving()
async def test_a_shard_is_counted_from_its_election_on(at: Serving) -> None:
    await loaded(at)
    assert told(at) == {"partitions.active": 1, "load": 1}
    at.node.groups.resign(0)
    assert told(at) == {"load": 1}


@serving(**{"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"})
async def test_offsets_are_counted_as_they_come_and_go(at: Serving) -> None:
    await loaded(at)
    for group in ("a", "b"):
        assert await commit(at, group) == ErrorCode.NONE
    await commit(at, "a", partition=1)
    assert await commit(at, "a", partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = told(at)
    assert (found["offsets"], found["offsets.committed"]) == (3, 3)
    assert (found["classic.groups"], found["classic.groups.empty"]) == (2, 2)

    place = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[place])
    await at.ask(OffsetDeleteRequest(group_id="a", topics=[topic]), OffsetDeleteResponse)
    assert (told(at)["offsets"], told(at)["offsets.deleted"]) == (2, 1)

    await at.pass_ms(62_000)
    found = told(at)
    assert (found["offsets.expired"], found["offsets.committed"]) == (2, 3)
    assert "offsets" not in found
    assert "classic.groups" not in found


@serving(**{"group.initial.rebalance.delay.ms": "100"})
async def test_classic_groups_are_counted_by_state(at: Serving) -> None:
    await loaded(at)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joining = at.send(request, 3)
    assert told(at)["classic.groups.preparing_rebalance"] == 1
    await joining.answered.wait()
    (joined,) = joining.answers
    assert isinstance(joined, JoinGroupResponse)
    assert told(at)["classic.groups.completing_rebalance"] == 1
    assert "classic.rebalances" not in told(at)
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[],
    )
    await at.ask(sync, SyncGroupResponse, 3)
    found = told(at)
    assert (found["classic.groups.stable"], found["classic.groups"]) == (1, 1)
    assert found["classic.rebalances"] == 1


@serving()
async def test_consumer_groups_are_counted_by_state(at: Serving) -> None:
    await loaded(at)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    await at.ask(request, ConsumerGroupHeartbeatResponse, 1)
    found = told(at)
    assert (found["consumer.groups.stable"], found["consumer.groups"]) == (1, 1)
    assert found["consumer.rebalances"] == 1
    await at.pass_ms(60_000)
    assert told(at)["consumer.groups.empty"] == 1


@serving()
async def test_what_is_decided_is_measured_and_so_is_the_wait_for_disks(at: Serving) -> None:
    await loaded(at, flush__messages="1")
    await commit(at, "g")
    found = told(at)
    assert found["parked"] == 1
    assert found["processing"] >= 1
    (decisions,) = (each for each in at.node.metrics.snapshot() if each.name == DECISIONS)
    counted = {dict(each.attributes)["decision"]: each.value for each in decisions.points}
    assert counted == {"OffsetCommit": 1}


@serving()
async def test_the_names_are_fit_for_prometheus(at: Serving) -> None:
    text = render_prometheus(at.node.metrics.snapshot())
    assert "moldau_coordinator_group_offsets_committed_total 0" in text
    assert "moldau_coordinator_group_classic_groups_preparing_rebalance 0" in text


def test_every_state_of_a_consumer_group_is_counted() -> None:
    assert tuple(each.value for each in GroupState) == CONSUMER_STATES
