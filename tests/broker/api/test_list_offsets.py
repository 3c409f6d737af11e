"""ListOffsets, edge by edge; what Kafka 4.3.1 answers was looked up by asking it."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord
from moldau.records import Codec, Producer, encode_batch
from moldau.records.codecs import USUAL_BYTES_MAX
from tests.broker.api.requests import NOW, batch, list_offsets, produce
from tests.broker.api.serving import Serving, serving

Found = tuple[int, int, int, int]
NOTHING: Found = (0, -1, -1, -1)


async def find(at: Serving, timestamp: int, version: int = 11, **more: Any) -> Found:
    """Error, timestamp, offset, epoch."""
    answer = await at.ask(list_offsets(timestamp, **more), ListOffsetsResponse, version)
    ((row,),) = [each.partitions for each in answer.topics]
    return row.error_code, row.timestamp, row.offset, row.leader_epoch


def put(at: Serving, *times: int) -> None:
    for time in times:
        at.send(produce("t", batch(at=time)), 12)


@serving()
async def test_ends_and_times(at: Serving) -> None:
    at.create("t")
    put(at, NOW, NOW + 5, NOW + 9, NOW + 7)
    cases = {
        -1: (0, -1, 4, 0),
        -2: (0, -1, 0, 0),
        -3: (0, NOW + 9, 2, 0),
        -4: (0, -1, 0, 0),
        -5: NOTHING,
        -6: NOTHING,
        0: (0, NOW, 0, 0),
        NOW: (0, NOW, 0, 0),
        NOW + 1: (0, NOW + 5, 1, 0),
        NOW + 8: (0, NOW + 9, 2, 0),
        NOW + 10: NOTHING,
    }
    for timestamp, found in cases.items():
        assert await find(at, timestamp) == found, timestamp


@serving()
async def test_an_empty_log(at: Serving) -> None:
    at.create("t")
    for timestamp in (-1, -2, -4):
        assert await find(at, timestamp) == (0, -1, 0, 0)
    for timestamp in (-3, -5, -6, 0, NOW):
        assert await find(at, timestamp) == NOTHING


@serving()
async def test_each_version_knows_its_timestamps(at: Serving) -> None:
    at.create("t")
    put(at, NOW)
    since = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 12, -(1 << 40): 12, NOW: 1}
    for version in range(1, 12):
        for timestamp, first in since.items():
            code, _, _, epoch = await find(at, timestamp, version)
            known = ErrorCode.NONE if version >= first else ErrorCode.UNSUPPORTED_VERSION
            assert code == known, (version, timestamp)
            assert version >= 4 or epoch == -1


@serving()
async def test_errors(at: Serving) -> None:
    at.create("t")
    assert (await find(at, -1, topic="nope"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await find(at, -1, index=3))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await find(at, -1, epoch=3))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await find(at, -9, epoch=3))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert (await find(at, -9, topic="nope"))[0] == ErrorCode.UNSUPPORTED_VERSION
    assert (await find(at, -1, isolation_level=9))[0] == ErrorCode.INVALID_REQUEST
    at.replicas.remove("t", 0)
    assert (await find(at, -1))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


@serving()
async def test_a_partition_that_is_named_twice_is_refused_and_told_once(at: Serving) -> None:
    at.create("t", 2)
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in ((0, -1), (1, -1), (0, -2))
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)]
    )
    answer = await at.ask(request, ListOffsetsResponse)
    rows: list[ListOffsetsPartitionResponse] = answer.topics[0].partitions
    assert [(row.partition_index, row.error_code) for row in rows] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, 0),
    ]


@serving()
async def test_no_consumer_hears_of_what_he_may_not_read(at: Serving) -> None:
    at.create("t")
    put(at, NOW)
    log = at.partition("t").log
    log.append_as_leader(batch(at=NOW + 5, producer=Producer(7, 0, 0, True)), 0, NOW)
    log.append_as_leader(batch(at=NOW + 9), 0, NOW)
    assert (log.high_watermark, log.log_end_offset) == (1, 3)
    for isolation_level in (0, 1):
        assert await find(at, -1, isolation_level=isolation_level) == (0, -1, 1, 0)
        assert await find(at, NOW + 5, isolation_level=isolation_level) == NOTHING
        assert await find(at, -3, isolation_level=isolation_level) == NOTHING
    assert await find(at, -1, replica_id=1) == (0, -1, 3, 0)
    assert await find(at, NOW + 5, replica_id=1) == (0, NOW + 5, 1, 0)
    log.update_high_watermark(3)
    assert await find(at, -1, isolation_level=0) == (0, -1, 3, 0)
    assert await find(at, -1, isolation_level=1) == (0, -1, 1, 0)
    assert await find(at, -3, isolation_level=0) == (0, NOW + 9, 2, 0)
    assert await find(at, -3, isolation_level=1) == NOTHING


async def elected(at: Serving) -> None:
    """A leader whose epoch has just begun: it has 4 records, and knows of 2 that they are
    committed."""
    at.create("t")
    put(at, NOW, NOW + 5)
    at.begin_epoch("t")
    put(at, NOW + 9, NOW + 7)
    at.begin_epoch("t")
    partition = at.partition("t")
    assert (partition.high_watermark, partition.log_end_offset) == (2, 4)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_new_leader_reports_no_end_below_what_was_acknowledged_before(
    isolation_level: int,
) -> None:
    @serving()
    async def run(at: Serving) -> None:
        await elected(at)
        for version in range(1, 12):
            code = (
                ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
            )
            unknown: Found = (code, -1, -1, -1)
            epoch = 0 if version >= 4 else -1
            cases: dict[int, Found] = {
                -1: unknown,
                -2: (0, -1, 0, epoch),
                NOW: (0, NOW, 0, epoch),
                NOW + 5: (0, NOW + 5, 1, epoch),
                NOW + 6: unknown,  # an uncommitted record is that new
                NOW + 10: unknown,
            }
            if version >= 7:
                cases[-3] = unknown
            if version >= 8:
                cases[-4] = (0, -1, 0, epoch)
            if version >= 9:
                cases[-5] = NOTHING
            for timestamp, found in cases.items():
                how = {"isolation_level": isolation_level} if version >= 2 else {}
                assert await find(at, timestamp, version, **how) == found, (version, timestamp)
        at.partition("t").on_fetch(2, 4, 0, at.now_ms, -1)
        assert await find(at, -1, isolation_level=isolation_level) == (0, -1, 4, 2)
        assert await find(at, -3, isolation_level=isolation_level) == (0, NOW + 9, 2, 1)
        assert await find(at, NOW + 10, isolation_level=isolation_level) == NOTHING

    run()


@serving()
async def test_records_of_its_own_epoch_do_not_hide_the_end(at: Serving) -> None:
    await elected(at)
    at.partition("t").on_fetch(2, 4, 0, at.now_ms, -1)
    put(at, NOW + 20)
    assert await find(at, -1) == (0, -1, 4, 2)
    assert await find(at, NOW + 20) == NOTHING


@pytest.mark.parametrize("replica_id", [2, -2])
def test_followers_and_debugging_clients_get_the_end_of_the_log(replica_id: int) -> None:
    @serving()
    async def run(at: Serving) -> None:
        await elected(at)
        assert await find(at, -1, replica_id=replica_id) == (0, -1, 4, 2)
        assert await find(at, NOW + 6, replica_id=replica_id) == (0, NOW + 9, 2, 1)

    run()


@serving()
async def test_a_follower_answers_a_debugging_client(at: Serving) -> None:
    await elected(at)
    at.follow("t")
    assert await find(at, -1, replica_id=-2) == (0, -1, 4, 3)
    for replica_id in (-1, 2):
        code, *_ = await find(at, -1, replica_id=replica_id)
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@serving()
async def test_an_answer_has_the_epoch_of_the_record(at: Serving) -> None:
    topic_id = at.create("t")
    put(at, NOW)
    at.cluster.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=[1])])
    at.lead("t")
    assert await find(at, -1) == (0, -1, 1, 1), "the end is of the leader's epoch"
    assert await find(at, -2) == (0, -1, 0, 0)
    put(at, NOW + 1)
    assert await find(at, NOW) == (0, NOW, 0, 0)
    assert await find(at, NOW + 1) == (0, NOW + 1, 1, 1)
    assert (await find(at, -1, epoch=0))[0] == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("timestamp", [-2, -4, 0])
def test_what_is_deleted_is_not_found(timestamp: int) -> None:
    @serving()
    async def run(at: Serving) -> None:
        at.create("t")
        put(at, NOW, NOW + 1, NOW + 2)
        at.partition("t").delete_records(2)
        assert (await find(at, timestamp))[2] == 2

    run()


def large(*times: int) -> bytes:
    """A batch that takes long to open, with a record for each time."""
    rows = [(each, b"k", bytes(USUAL_BYTES_MAX), ()) for each in times]
    return bytes(encode_batch(rows, codec=Codec.GZIP))


@serving()
async def test_a_record_in_a_large_batch_is_looked_for_beside_the_loop(at: Serving) -> None:
    at.create("t")
    put(at, NOW)
    await at.ask(produce("t", large(NOW + 5, NOW + 9, NOW + 7)), ProduceResponse, 12)
    sent = at.send(list_offsets(NOW + 6), 11)
    other = at.send(list_offsets(NOW), 11)
    assert (len(sent.answers), len(other.answers)) == (0, 1), "others are served meanwhile"
    await sent.answered.wait()
    cases = {
        NOW + 1: (0, NOW + 5, 1, 0),
        NOW + 6: (0, NOW + 9, 2, 0),
        NOW + 10: NOTHING,
        -3: (0, NOW + 9, 2, 0),
    }
    for timestamp, found in cases.items():
        assert await find(at, timestamp) == found, timestamp


@serving()
async def test_a_large_batch_whose_record_was_deleted_leads_to_the_next_one(at: Serving) -> None:
    at.create("t")
    for records in (large(NOW + 9, NOW), large(NOW + 9, NOW), batch(at=NOW + 8)):
        await at.ask(produce("t", records), ProduceResponse, 12)
    partition = at.partition("t")
    partition.delete_records(1)
    assert await find(at, NOW + 1) == (0, NOW + 9, 2, 0)
    partition.delete_records(3)
    assert await find(at, NOW + 1) == (0, NOW + 8, 4, 0)
    assert await find(at, NOW + 9) == NOTHING


@serving()
async def test_a_partition_that_has_another_leader_meanwhile_refuses(at: Serving) -> None:
    topic_id = at.create("t")
    await at.ask(produce("t", large(NOW, NOW)), ProduceResponse, 12)
    sent = at.send(list_offsets(NOW), 11)
    at.replicas.resign("t", 0, topic_id, 1)
    await sent.answered.wait()
    (answer,) = sent.answers
    assert isinstance(answer, ListOffsetsResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
