"""Batches that decompress to much are checked beside the event loop, and answered as others are."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.produce import ProduceResponse
from moldau.records import Codec, encode_batch
from moldau.records.builder import Producer
from moldau.records.codecs import USUAL_BYTES_MAX
from tests.broker.api.produce_answers import one, rows
from tests.broker.api.requests import NOW, batch, produce, produce_all
from tests.broker.api.serving import Serving, serving

SIZE = 2 * USUAL_BYTES_MAX
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_large_batch_waits_for_its_check_and_is_appended(codec: Codec) -> None:
    @serving()
    async def scenario(at: Serving) -> None:
        at.create("t")
        sent = at.send(produce("t", batch(size=SIZE, codec=codec)), 9)
        before = len(sent.answers), sent.holds_order
        await sent.answered.wait()
        assert (before, sent.holds_order) == ((0, True), False)
        row = rows(sent)["t", 0]
        assert (row.error_code, row.base_offset) == (0, 0)
        assert (await one(at, "t", batch())).base_offset == 1

    scenario()


@serving()
async def test_others_are_served_while_a_large_batch_is_checked(at: Serving) -> None:
    at.create("t", 2)
    large = at.send(produce("t", batch(size=SIZE, codec=Codec.GZIP)), 9)
    other = at.send(produce("t", batch(), index=1), 9)
    assert other.answers
    assert not large.answers
    await large.answered.wait()


@serving()
async def test_small_batches_of_the_same_request_do_not_wait(at: Serving) -> None:
    at.create("t", 3)
    large = batch(size=SIZE, codec=Codec.ZSTD)
    sent = at.send(produce_all({("t", 0): batch(), ("t", 1): large, ("t", 2): batch()}), 9)
    assert [at.partition("t", index).log_end_offset for index in range(3)] == [1, 0, 1]
    await sent.answered.wait()
    assert [each.error_code for each in rows(sent).values()] == [0, 0, 0]
    assert at.partition("t", 1).log_end_offset == 1


@serving()
async def test_a_large_batch_without_acknowledgement_is_appended(at: Serving) -> None:
    at.create("t")
    sent = at.send(produce("t", batch(size=SIZE, codec=Codec.LZ4), acks=0), 9)
    await sent.answered.wait()
    assert sent.is_silent
    assert at.partition("t").log_end_offset == 1


@serving()
async def test_bad_records_of_a_large_batch_are_named(at: Serving) -> None:
    at.create("t", cleanup__policy="compact")
    records = [(NOW, b"k", bytes(SIZE), ()), (NOW, None, b"v", ())]
    row = await one(at, "t", encode_batch(records, codec=Codec.GZIP))
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in row.record_errors] == [1]
    assert at.partition("t").log_end_offset == 0


@serving()
async def test_times_of_a_large_batch_are_checked(at: Serving) -> None:
    at.create("t", message__timestamp__after__max__ms="1000")
    row = await one(at, "t", batch(size=SIZE, at=NOW + 86_400_000, codec=Codec.GZIP))
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in row.record_errors] == [0]


@serving()
async def test_a_large_batch_gets_the_codec_and_the_time_of_its_topic(at: Serving) -> None:
    at.create("t", compression__type="zstd", message__timestamp__type="LogAppendTime")
    row = await one(at, "t", batch(size=SIZE, codec=Codec.GZIP))
    assert row.error_code == 0
    assert row.log_append_time_ms > 0
    assert at.partition("t").log.size_bytes < SIZE // 100


CHANGED: list[dict[str, Any]] = [
    {"message__timestamp__type": "LogAppendTime"},
    {"compression__type": "zstd"},
    {"compression__type": "uncompressed"},
    {"cleanup__policy": "compact"},
    {"message__timestamp__before__max__ms": "1"},
]


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("settings", CHANGED, ids=[next(iter(each)) for each in CHANGED])
@pytest.mark.parametrize("headers", [0, 3])
def test_a_batch_of_many_small_records_is_appended(
    codec: Codec, settings: dict[str, Any], headers: int
) -> None:
    """No more than a thread takes, and no more bytes than the event loop does."""

    @serving()
    async def scenario(at: Serving) -> None:
        at.create("t", **settings)
        records = [(NOW, b"k", b"", [("h", b"")] * headers)] * 20_000
        now_ms = at.node.runtime.clock.wall_ms()
        records = [(now_ms, *each[1:]) for each in records]
        row = await one(at, "t", bytes(encode_batch(records, codec=codec)))
        assert (row.error_code, row.base_offset) == (0, 0)
        assert at.partition("t").log_end_offset == 20_000

    scenario()


@serving()
async def test_a_partition_that_is_gone_meanwhile_refuses(at: Serving) -> None:
    topic_id = at.create("t")
    sent = at.send(produce("t", batch(size=SIZE, codec=Codec.GZIP)), 9)
    at.replicas.resign("t", 0, topic_id, 1)
    await sent.answered.wait()
    assert rows(sent)["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@serving()
async def test_a_producer_goes_on_behind_its_large_batch(at: Serving) -> None:
    at.create("t")
    for number, size in enumerate((SIZE, 10, SIZE)):
        records = batch(size=size, codec=Codec.GZIP, producer=Producer(7, 0, number))
        for _ in range(2):  # the second is a duplicate
            row = await one(at, "t", records)
            assert (row.error_code, row.base_offset) == (0, number)


@serving()
async def test_more_large_batches_than_may_wait_are_to_be_sent_again(at: Serving) -> None:
    at.create("t")
    at.node.unchecked_bytes = 64 << 20
    row = await one(at, "t", batch(size=SIZE, codec=Codec.GZIP))
    assert row.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    at.node.unchecked_bytes = 0
    answer = await at.ask(produce("t", batch(size=SIZE, codec=Codec.GZIP)), ProduceResponse, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert at.node.unchecked_bytes == 0
