"""Offsets in transactions, by the ids of their topics (KIP-1319).

Apache Kafka 4.4 is asked: its version of TxnOffsetCommit is served.
"""

from __future__ import annotations

from moldau.ids import Uuid
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.differential.group_requests import coordinated
from tests.differential.scenarios.transactions import begun, complete, end
from tests.differential.talk import Talk

UNKNOWN_ID = b"\x01" * 16
_BY_ID = 6


async def scenario(talk: Talk) -> None:
    topic_id, other_id = await talk.topic("t", 2), await talk.topic("other")
    await coordinated(talk)
    producer = await begun(talk, "new")
    for label, places in {
        "a partition": [(topic_id, 0)],
        "several topics": [(topic_id, 0), (topic_id, 1), (other_id, 0)],
        "an unknown topic": [(UNKNOWN_ID, 0)],
        "no topic": [(bytes(16), 0)],
        "an unknown partition": [(topic_id, 7)],
        "one that is there and two that are not": [(UNKNOWN_ID, 0), (topic_id, 1), (topic_id, 9)],
        "nothing": [],
    }.items():
        await talk.ask(label, by_id(producer, places), _BY_ID)
    member = by_id(producer, [(topic_id, 0)], member="m", epoch=3)
    await talk.ask("a member of a group that is not there", member, _BY_ID)
    await talk.ask("text that is too long", by_id(producer, [(topic_id, 0)], "x" * 5000), _BY_ID)
    stale = (producer[0], producer[1] - 1)
    await talk.ask("an epoch of before", by_id(stale, [(topic_id, 0)]), _BY_ID)
    await talk.ask("commit", end("new", producer, commit=True), 5)
    await complete(talk, "new")
    await talk.delete("other")
    producer = (producer[0], producer[1] + 1)
    await talk.ask("a deleted topic", by_id(producer, [(other_id, 0)]), _BY_ID)
    await talk.topic("other")
    await talk.ask("a topic that was made again", by_id(producer, [(other_id, 0)]), _BY_ID)


def by_id(
    producer: tuple[int, int],
    places: list[tuple[Uuid, int]],
    text: str | None = None,
    *,
    member: str = "",
    epoch: int = -1,
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="new",
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[
            TxnOffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata=text
                    )
                ],
            )
            for topic_id, index in places
        ],
    )
