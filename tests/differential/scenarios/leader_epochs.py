"""OffsetForLeaderEpoch: before, in and after the epochs of a log, also over restarts."""

from __future__ import annotations

from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.api.requests import delete_records, fetch, want
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

ALL = versions(OffsetForLeaderEpochRequest)


def end_of(
    epoch: int, topic: str = "t", index: int = 0, current: int = -1, replica_id: int = -1
) -> OffsetForLeaderEpochRequest:
    """Where does that epoch end?"""
    asked = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current, leader_epoch=epoch
    )
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
    )


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await talk.topic("empty")
    for epoch in (-1, 0, 1):
        await talk.ask(f"epoch {epoch} of nothing", end_of(epoch), ALL)
    await talk.write("t", batch(3), batch(2))
    for epoch in (-2, -1, 0, 1, 5):
        await talk.ask(f"epoch {epoch}", end_of(epoch), ALL)
    for current in (0, 1, 5, -2):
        await talk.ask(f"current epoch {current}", end_of(0, current=current), ALL)
    for replica_id in (1, 5, -2):
        await talk.ask(f"replica {replica_id}", end_of(0, replica_id=replica_id), [3, 4])
    await talk.ask("unknown topic", end_of(0, "nope"), ALL)
    for index in (9, -1):
        await talk.ask(f"partition {index}", end_of(0, index=index), ALL)
    both = end_of(0)
    both.topics.append(OffsetForLeaderTopic(topic="empty", partitions=both.topics[0].partitions))
    await talk.ask("two topics", both, ALL)
    await talk.ask("nothing", OffsetForLeaderEpochRequest(replica_id=-1, topics=[]), ALL)
    await talk.ask("cut", delete_records("t", 4))
    await talk.ask("epoch 0 after a cut", end_of(0), ALL)
    await talk.restart()
    await talk.until(lambda: talk.is_led("t", 0))
    for epoch in (-1, 0, 1, 2, 3, 4):
        await talk.ask(f"epoch {epoch} after a restart", end_of(epoch), 4)
        await talk.ask(f"epoch {epoch} of nothing after a restart", end_of(epoch, "empty"), 4)
    for current in range(4):
        await talk.ask(f"current epoch {current} after a restart", end_of(0, current=current), 4)
        one = fetch(("t", want(offset=4, current_leader_epoch=current)))
        await talk.ask(f"fetch at epoch {current} after a restart", one, 12)
    await talk.write("t", batch(2))
    for epoch in range(4):
        await talk.ask(f"epoch {epoch} after a write", end_of(epoch), 4)
    await talk.ask("what is there then", fetch(("t", want(offset=4))), 12)
    await talk.restart()
    await talk.restart()
    await talk.until(lambda: talk.is_led("t", 0))
    for epoch in range(10):
        await talk.ask(f"epoch {epoch} after restarts without writes", end_of(epoch), 4)
        empty = end_of(epoch, "empty")
        await talk.ask(f"epoch {epoch} of nothing after restarts", empty, 4)
    await talk.write("t", batch(1))
    await talk.write("empty", batch(1))
    for epoch in range(10):
        await talk.ask(f"epoch {epoch} with writes again", end_of(epoch), 4)
        await talk.ask(f"epoch {epoch} of the first write", end_of(epoch, "empty"), 4)
