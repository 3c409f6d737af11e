"""DeleteRecords, edge by edge; what Kafka 4.3.1 answers was looked up by asking it."""

from __future__ import annotations

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from tests.broker.api.requests import batch, delete_records, produce
from tests.broker.api.serving import Serving, serving


async def delete(
    at: Serving, offset: int, topic: str = "t", index: int = 0, version: int = 2
) -> tuple[int, int]:
    """Error and low watermark."""
    answer = await at.ask(delete_records(topic, offset, index), DeleteRecordsResponse, version)
    ((row,),) = [each.partitions for each in answer.topics]
    assert row.partition_index == index
    return row.error_code, row.low_watermark


@serving()
async def test_a_log_begins_later_and_never_earlier(at: Serving) -> None:
    at.create("t")
    at.send(produce("t", batch(9)), 12)
    out_of_range = (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    for version, (offset, found) in zip(
        (0, 1, 2, 2, 2, 2, 2),
        [
            (4, (0, 4)),
            (4, (0, 4)),
            (2, (0, 4)),
            (100, out_of_range),
            (-5, out_of_range),
            (-1, (0, 9)),
            (9, (0, 9)),
        ],
        strict=True,
    ):
        assert await delete(at, offset, version=version) == found, offset
    assert at.partition("t").log_start_offset == 9


@serving()
async def test_it_is_durable_when_it_is_answered(at: Serving) -> None:
    at.create("t")
    at.send(produce("t", batch(9)), 12)
    assert await delete(at, 5) == (0, 5)
    at.disk.power_loss()
    checkpoint = f"{at.directory_of('t')}/log-start-offset-checkpoint"
    assert b"t 0 5" in at.disk.contents(checkpoint)


@serving()
async def test_what_is_refused(at: Serving) -> None:
    at.create("t", cleanup__policy="compact")
    at.create("both", cleanup__policy="compact,delete")
    at.create("__consumer_offsets")
    assert await delete(at, 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert await delete(at, 0, "both") == (0, 0)
    assert await delete(at, 0, "nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete(at, 0, "t", 5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    refused = await delete(at, 0, "__consumer_offsets")
    assert refused == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    at.replicas.remove("both", 0)
    assert await delete(at, 0, "both") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
