"""The five requests to the share coordinator, through a whole broker's listener."""

from __future__ import annotations

from moldau.broker.coordinator.kind import KeyType
from moldau.errors.codes import ErrorCode
from moldau.ids import format_uuid
from moldau.protocol.messages import delete_share_group_state as deleting
from moldau.protocol.messages import initialize_share_group_state as initializing
from moldau.protocol.messages import read_share_group_state as reading
from moldau.protocol.messages import read_share_group_state_summary as summing
from moldau.protocol.messages import write_share_group_state as writing
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.broker.api.serving import Serving, serving

STATE_TOPIC = "__share_group_state"
GROUP = "mailer"


async def coordinated(at: Serving) -> bytes:
    """The id of a topic whose share partitions have a coordinator."""
    topic_id = at.create("orders", 3)
    at.create(STATE_TOPIC, 2, cleanup__policy="delete", retention__ms="-1")
    coordinator = at.node.coordinators.of(KeyType.SHARE)
    for index in range(2):
        coordinator.elect(index)
    while len(list(coordinator.loaded())) < 2:
        await at.pass_ms(1)
    return topic_id


def initialize(topic_id: bytes, *partitions: int) -> initializing.InitializeShareGroupStateRequest:
    return initializing.InitializeShareGroupStateRequest(
        group_id=GROUP,
        topics=[
            initializing.InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    initializing.PartitionData(partition=each, state_epoch=1, start_offset=10)
                    for each in partitions
                ],
            )
        ],
    )


@serving()
async def test_each_partition_is_decided_by_its_own_shard(at: Serving) -> None:
    topic_id = await coordinated(at)
    made = await at.ask(
        initialize(topic_id, 0, 1, 2, 9), initializing.InitializeShareGroupStateResponse
    )
    codes = [each.error_code for each in made.results[0].partitions]
    assert codes == [0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    logs = [at.partition(STATE_TOPIC, index).log_end_offset for index in range(2)]
    assert sum(logs) == 3
    assert all(logs), "the keys are spread"

    change = writing.PartitionData(
        partition=2,
        state_epoch=1,
        leader_epoch=0,
        start_offset=11,
        delivery_complete_count=1,
        state_batches=[
            writing.StateBatch(first_offset=12, last_offset=12, delivery_state=2, delivery_count=1)
        ],
    )
    topic = writing.WriteStateData(topic_id=topic_id, partitions=[change])
    wrote = await at.ask(
        writing.WriteShareGroupStateRequest(group_id=GROUP, topics=[topic]),
        writing.WriteShareGroupStateResponse,
    )
    assert wrote.results[0].partitions[0].error_code == 0

    asked = summing.ReadStateSummaryData(
        topic_id=topic_id, partitions=[summing.PartitionData(partition=2, leader_epoch=-1)]
    )
    summary = await at.ask(
        summing.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[asked]),
        summing.ReadShareGroupStateSummaryResponse,
    )
    found = summary.results[0].partitions[0]
    assert (found.start_offset, found.delivery_complete_count, found.state_epoch) == (11, 1, 1)

    wanted = reading.ReadStateData(
        topic_id=topic_id, partitions=[reading.PartitionData(partition=2, leader_epoch=5)]
    )
    read = await at.ask(
        reading.ReadShareGroupStateRequest(group_id=GROUP, topics=[wanted]),
        reading.ReadShareGroupStateResponse,
    )
    (run,) = read.results[0].partitions[0].state_batches
    assert (run.first_offset, run.last_offset, run.delivery_state) == (12, 12, 2)

    gone = deleting.DeleteStateData(
        topic_id=topic_id, partitions=[deleting.PartitionData(partition=2)]
    )
    deleted = await at.ask(
        deleting.DeleteShareGroupStateRequest(group_id=GROUP, topics=[gone]),
        deleting.DeleteShareGroupStateResponse,
    )
    assert deleted.results[0].partitions[0].error_code == 0


@serving()
async def test_a_request_without_group_or_partitions_gets_nothing(at: Serving) -> None:
    topic_id = await coordinated(at)
    empty = initialize(topic_id)
    answer = await at.ask(empty, initializing.InitializeShareGroupStateResponse)
    assert answer.results == []
    nameless = initialize(topic_id, 0)
    nameless.group_id = ""
    answer = await at.ask(nameless, initializing.InitializeShareGroupStateResponse)
    assert answer.results == []


@serving()
async def test_a_node_without_the_shard_says_so(at: Serving) -> None:
    topic_id = at.create("orders")
    answer = await at.ask(initialize(topic_id, 0), initializing.InitializeShareGroupStateResponse)
    assert answer.results[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


@serving()
async def test_a_share_partition_has_a_coordinator(at: Serving) -> None:
    topic_id = await coordinated(at)
    keys = [f"{GROUP}:{format_uuid(topic_id)}:0", "nonsense"]
    request = FindCoordinatorRequest(key_type=KeyType.SHARE, coordinator_keys=keys)
    answer = await at.ask(request, FindCoordinatorResponse)
    codes = [each.error_code for each in answer.coordinators]
    assert codes == [0, ErrorCode.INVALID_REQUEST]
