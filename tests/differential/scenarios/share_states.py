"""The share coordinator: states of share partitions, their epochs, and what is no state.

Apache Kafka 4.4 is asked: it takes no epochs below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.ids import ZERO_UUID, format_uuid
from moldau.protocol.messages import delete_share_group_state as deleting
from moldau.protocol.messages import initialize_share_group_state as initializing
from moldau.protocol.messages import read_share_group_state as reading
from moldau.protocol.messages import read_share_group_state_summary as summing
from moldau.protocol.messages import write_share_group_state as writing
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.differential.talk import Talk, versions

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}
SHARE = 2
GROUP = "mailer"
Runs = Sequence[tuple[int, int, int, int]]


def find(*keys: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=SHARE, coordinator_keys=list(keys))


async def coordinated(talk: Talk, topic_id: bytes) -> None:
    """Share partitions have a coordinator that is loaded when this returns."""

    async def is_up() -> bool:
        found = await talk.send(find(f"{GROUP}:{format_uuid(topic_id)}:0"), FindCoordinatorResponse)
        if found.coordinators[0].error_code:
            return False
        loaded = await talk.send(
            summary(topic_id, 0, group="nobody")(1), summing.ReadShareGroupStateSummaryResponse
        )
        return not loaded.results[0].partitions[0].error_code

    await talk.until(is_up)


def initialize(topic_id: bytes, partition: int, start: int, epoch: int, group: str = GROUP) -> Any:
    part = initializing.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
    return initializing.InitializeShareGroupStateRequest(
        group_id=group,
        topics=[initializing.InitializeStateData(topic_id=topic_id, partitions=[part])],
    )


def read(topic_id: bytes, partition: int, leader_epoch: int, group: str = GROUP) -> Any:
    part = reading.PartitionData(partition=partition, leader_epoch=leader_epoch)
    return reading.ReadShareGroupStateRequest(
        group_id=group, topics=[reading.ReadStateData(topic_id=topic_id, partitions=[part])]
    )


def write(
    topic_id: bytes,
    runs: Runs,
    *,
    epochs: tuple[int, int] = (1, 0),
    start: int = -1,
    partition: int = 0,
    group: str = GROUP,
) -> Callable[[int], Any]:
    """`epochs`: of the state and of the leader."""

    def request(version: int) -> Any:
        part = writing.PartitionData(
            partition=partition,
            state_epoch=epochs[0],
            leader_epoch=epochs[1],
            start_offset=start,
            delivery_complete_count=2 if version else -1,
            state_batches=[
                writing.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in runs
            ],
        )
        return writing.WriteShareGroupStateRequest(
            group_id=group, topics=[writing.WriteStateData(topic_id=topic_id, partitions=[part])]
        )

    return request


def summary(topic_id: bytes, partition: int, group: str = GROUP) -> Callable[[int], Any]:
    part = summing.PartitionData(partition=partition, leader_epoch=-1)
    return lambda version: summing.ReadShareGroupStateSummaryRequest(
        group_id=group,
        topics=[summing.ReadStateSummaryData(topic_id=topic_id, partitions=[part])],
    )


def delete(topic_id: bytes, partition: int, group: str = GROUP) -> Any:
    part = deleting.PartitionData(partition=partition)
    return deleting.DeleteShareGroupStateRequest(
        group_id=group, topics=[deleting.DeleteStateData(topic_id=topic_id, partitions=[part])]
    )


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t", 2)
    await coordinated(talk, topic_id)
    key = format_uuid(bytes(15) + b"\x07")
    await talk.ask("keys that are none", find("", "g", "g:t:0", f":{key}:0", f"g:{key}:x"), 6)
    await talk.ask("read before it is initialized", read(topic_id, 0, 0))
    await talk.ask(
        "write before it is initialized",
        write(topic_id, [(0, 1, 2, 1)]),
        versions(writing.WriteShareGroupStateRequest),
    )
    await talk.ask(
        "a summary of nothing",
        summary(topic_id, 0),
        versions(summing.ReadShareGroupStateSummaryRequest),
    )
    await talk.ask("delete nothing", delete(topic_id, 0))
    for name, partition in (("negative", -1), ("unknown", 7)):
        await talk.ask(f"initialize a {name} partition", initialize(topic_id, partition, 0, 0))
        await talk.ask(f"read a {name} partition", read(topic_id, partition, 0))
        await talk.ask(f"a summary of a {name} partition", summary(topic_id, partition), 1)
        await talk.ask(f"delete a {name} partition", delete(topic_id, partition))
        await talk.ask(f"read a {name} partition, no epoch", read(topic_id, partition, -1))
    await talk.ask("read before that, without an epoch", read(topic_id, 0, -1))
    await talk.ask("write before that, without epochs", write(topic_id, [], epochs=(-1, -1)), 1)
    await talk.ask("initialize an unknown topic", initialize(ZERO_UUID, 0, 0, 0))
    await talk.ask("no group", initialize(topic_id, 0, 0, 0, group=""))
    await states(talk, topic_id)


async def states(talk: Talk, topic_id: bytes) -> None:
    await talk.ask("initialize", initialize(topic_id, 0, 5, 1))
    await talk.ask("a fresh state", read(topic_id, 0, 0))
    await talk.ask("write", write(topic_id, [(5, 6, 2, 1), (8, 9, 0, 1)], start=5), 1)
    await talk.ask("what was written", read(topic_id, 0, 0))
    await talk.ask("write over it", write(topic_id, [(7, 8, 4, 2)], start=5), 1)
    await talk.ask("what is stronger", read(topic_id, 0, 0))
    await talk.ask("write less deliveries", write(topic_id, [(7, 9, 2, 1)], start=5), 1)
    await talk.ask("the more deliveries", read(topic_id, 0, 0))
    await talk.ask("move the start", write(topic_id, [], start=8), 1)
    await talk.ask("what is left", read(topic_id, 0, 0))
    await talk.ask(
        "a summary", summary(topic_id, 0), versions(summing.ReadShareGroupStateSummaryRequest)
    )
    await talk.ask("a new leader", read(topic_id, 0, 4))
    await talk.ask("the leader before it reads", read(topic_id, 0, 3))
    await talk.ask("the leader before it writes", write(topic_id, [], epochs=(1, 3)), 1)
    await talk.ask("a later leader writes", write(topic_id, [], epochs=(1, 9), start=8), 1)
    await talk.ask("the leader epoch after that", summary(topic_id, 0), 1)
    await talk.ask("begin anew", initialize(topic_id, 0, -1, 2))
    await talk.ask("an old state epoch writes", write(topic_id, [], epochs=(1, 4)), 1)
    await talk.ask("an old state epoch begins anew", initialize(topic_id, 0, 0, 1))
    await talk.ask("the new state", summary(topic_id, 0), 1)
    await talk.ask("without a leader epoch", read(topic_id, 0, -1))
    for epochs in ((-1, -1), (-1, 9), (2, -1)):
        label = f"write of the epochs {epochs}"
        await talk.ask(label, write(topic_id, [(3, 3, 2, 1)], epochs=epochs), 1)
    await talk.ask("what they wrote", read(topic_id, 0, 9))
    await talk.ask("begin anew without an epoch", initialize(topic_id, 0, 0, -1))
    await talk.ask("whether it has", read(topic_id, 0, 9))
    await talk.ask("delete", delete(topic_id, 0))
    await talk.ask("after that", read(topic_id, 0, 4))
