"""Offsets in a transaction by topic id (TxnOffsetCommit 6), over the wire of one node."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.schemas.metadata_log import RemoveTopicRecord
from tests.broker.api.serving import Serving, serving
from tests.broker.api.transactional_client import begin, committed


@serving()
async def test_offsets_by_topic_id_are_of_no_other_topic_of_that_name(at: Serving) -> None:
    """KIP-1319: 1. A consumer reads a topic. 2. The topic is deleted and made again. 3. A producer
    commits the offset in the old topic, which is none in the new one."""
    client = await begin(at)
    old = at.node.image.topics.by_name("t")
    assert old is not None
    assert await client.commit_by_id(old.topic_id, 5) == ErrorCode.NONE
    assert await client.end(commit=True) == 0
    await at.pass_ms(500)
    assert await committed(at, stable=True) == (5, 0)
    count = len(old.partitions)
    for index in range(count):
        at.replicas.remove("t", index)
    at.cluster.append([RemoveTopicRecord(topic_id=old.topic_id)])
    assert await client.commit_by_id(old.topic_id, 9) == ErrorCode.UNKNOWN_TOPIC_ID
    at.create("t", count)
    new = at.node.image.topics.by_name("t")
    assert new is not None
    assert await client.commit_by_id(old.topic_id, 9) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await client.commit_by_id(new.topic_id, 2) == ErrorCode.NONE
    assert await client.end(commit=True) == 0
    await at.pass_ms(500)
    assert await committed(at, stable=True) == (2, 0)


@serving()
async def test_a_member_of_no_group_has_another_error_since_version_6(at: Serving) -> None:
    client = await begin(at)
    topic = at.node.image.topics.by_name("t")
    assert topic is not None
    given = await client.commit_by_id(topic.topic_id, 5, generation=3, member="m")
    assert given == ErrorCode.GROUP_ID_NOT_FOUND
    assert await client.commit_offset(5, 3, "m") == ErrorCode.ILLEGAL_GENERATION
