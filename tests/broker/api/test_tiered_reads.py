"""Fetch, ShareFetch and ListOffsets below the local start of a tiered log."""

from __future__ import annotations

from typing import Any, Final

import pytest

from moldau.broker.replication.quota import ReplicationQuota
from moldau.broker.tiered.remote_reads import ReadLimits
from moldau.broker.tiered.segment_objects import ObjectKind, object_name
from moldau.errors.codes import ErrorCode
from moldau.objects.store_errors import StoreReason
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.records import HEADER_BYTES, read_header
from tests.broker.api.requests import NOW, fetch, list_offsets, want
from tests.broker.api.serving import Sent, Serving, fetched, serving
from tests.broker.api.tiered_log import Tier, lost_batch, roll, write

SEGMENTS: Final = 4
BATCHES: Final = 5
COUNT: Final = 3
SEGMENT: Final = BATCHES * COUNT
"""The offsets of a segment."""
VERSION: Final = 12


def fill(at: Serving, index: int = 0) -> None:
    """Four local segments, the last one of which is active."""
    partition = at.partition("t", index)
    for number in range(SEGMENTS):
        if number:
            roll(partition)
        for batch in range(BATCHES):
            write(partition, COUNT, at_ms=NOW + 1000 * number + 10 * batch)


async def tiered(at: Serving, **options: Any) -> Tier:
    """The first two segments are remote only, the third is in both tiers."""
    at.create("t", 2)
    fill(at)
    tier = Tier(at, at.partition("t"), **options)
    for number in range(3):
        await tier.copy(number * SEGMENT, (number + 1) * SEGMENT)
    assert tier.cut(2 * SEGMENT) == 2 * SEGMENT
    return tier


def ask(at: Serving, offset: int, wait_ms: int = 500, **more: Any) -> Sent:
    options = {name: more.pop(name) for name in ("max_bytes", "min_bytes") if name in more}
    return at.send(fetch(("t", want(0, offset, **more)), wait_ms=wait_ms, **options), VERSION)


async def read(at: Serving, offset: int, **more: Any) -> Any:
    """The row of the partition, when the answer comes."""
    sent = ask(at, offset, **more)
    await sent.answered.wait()
    return row_of(sent)


def row_of(sent: Sent) -> Any:
    (answer,) = sent.answers
    assert isinstance(answer, FetchResponse)
    (row,) = fetched(answer).values()
    return row


def have_records(sent: Sent) -> list[bool]:
    """Whether each partition of the answer has records."""
    (answer,) = sent.answers
    assert isinstance(answer, FetchResponse)
    return [bool(row.records) for row in fetched(answer).values()]


def first_offset(row: Any) -> int:
    return read_header(bytes(row.records)[:HEADER_BYTES]).base_offset


def warnings(at: Serving) -> list[str]:
    return [line for line in at.lines if "remote records cannot be read" in line]


@serving()
async def test_a_fetch_below_the_local_start_gets_the_records_of_the_store(at: Serving) -> None:
    tier = await tiered(at)
    row = await read(at, 4)
    expected = b"".join(
        each.data for each in tier.batches if each.next_offset > 4 and each.base_offset < SEGMENT
    )
    assert (row.error_code, bytes(row.records)) == (0, expected)
    assert (row.high_watermark, row.log_start_offset) == (SEGMENTS * SEGMENT, 0)
    assert not warnings(at)
    await tier.close()


@serving()
async def test_no_task_and_no_request_is_left_behind(at: Serving) -> None:
    tier = await tiered(at)
    await read(at, 0)
    assert len(at.replicas.purgatory) == 0
    assert tier.reads.counts.requests == 1
    await tier.close()
    assert tier.reads.kept_bytes == 0


@serving()
async def test_a_fetch_that_does_not_wait_gets_remote_records(at: Serving) -> None:
    tier = await tiered(at)
    row = await read(at, 0, wait_ms=0)
    assert row.records
    await tier.close()


@serving()
async def test_a_slow_store_is_waited_for_and_its_records_are_kept_for_the_next_fetch(
    at: Serving,
) -> None:
    tier = await tiered(at)
    tier.bucket.delay_ms = 400
    begun = at.now_ms
    row = await read(at, 0, wait_ms=30_000)  # an index and a chunk: 800 ms
    assert (row.error_code, bytes(row.records)) == (0, b"")
    assert 500 <= at.now_ms - begun < 510, "remote.fetch.max.wait.ms"
    row = await read(at, 0)
    assert row.records
    assert tier.reads.counts.requests == 1, "the first read served the second fetch"
    await tier.close()


@serving()
async def test_a_busy_local_partition_does_not_starve_a_remote_one(at: Serving) -> None:
    tier = await tiered(at)
    fill(at, 1)
    wanted = (("t", want(0, 0)), ("t", want(1, 0)))
    first = at.send(fetch(*wanted, wait_ms=500), VERSION)
    assert have_records(first) == [False, True], "the local one is answered at once"
    await at.pass_ms(1_000)
    second = at.send(fetch(*wanted, wait_ms=500), VERSION)
    assert have_records(second) == [True, True]
    await tier.close()


@serving()
async def test_the_next_segment_is_there_before_its_reader(at: Serving) -> None:
    tier = await tiered(at)
    assert (await read(at, 0)).records
    await at.pass_ms(1_000)
    before = len(tier.bucket.reads)
    row = await read(at, SEGMENT)
    assert first_offset(row) == SEGMENT
    assert len(tier.bucket.reads) == before
    await tier.close()


@serving()
async def test_what_cannot_be_fetched_ahead_harms_no_reader(at: Serving) -> None:
    tier = await tiered(at)
    first = tier.remote.segments()[0]
    kept = dict(tier.bucket.objects)
    for name in tier.bucket.objects:
        if name not in {object_name(first, kind) for kind in ObjectKind}:
            tier.bucket.objects[name] = b"damaged"
    assert (await read(at, 0)).records
    await at.pass_ms(1_000)
    assert not warnings(at)
    assert (await read(at, SEGMENT)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    tier.bucket.objects.update(kept)
    assert (await read(at, SEGMENT)).records
    await tier.close()


@serving()
async def test_two_readers_of_the_same_records_share_a_read(at: Serving) -> None:
    tier = await tiered(at)
    tier.bucket.delay_ms = 50
    both = [ask(at, 0), ask(at, 0)]
    for each in both:
        await each.answered.wait()
    assert row_of(both[0]).records == row_of(both[1]).records != b""
    assert tier.reads.counts.requests == 1
    await tier.close()


@pytest.mark.parametrize("reason", [StoreReason.SERVER_ERROR, StoreReason.THROTTLED])
def test_a_short_fault_of_the_store_is_not_seen_by_a_client(reason: StoreReason) -> None:
    @serving()
    async def run(at: Serving) -> None:
        tier = await tiered(at)
        tier.bucket.faults.extend([reason] * 2)
        row = await read(at, 0)
        assert row.error_code == 0
        await at.pass_ms(3_000)
        row = await read(at, 0)
        assert row.records
        assert not warnings(at)
        await tier.close()

    run()


@serving()
async def test_a_store_that_stays_away_is_a_retriable_error_and_one_line(at: Serving) -> None:
    tier = await tiered(at)
    tier.bucket.faults.extend([StoreReason.THROTTLED] * 1000)
    codes: set[int] = set()
    while not codes - {0}:
        codes.add((await read(at, 0)).error_code)
    assert codes <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
    for offset in (0, 4, 8):  # others meet the same fault
        for _ in range(30):
            await read(at, offset)
    assert len(warnings(at)) == 1
    tier.bucket.faults.clear()
    await at.pass_ms(10_000)
    row = await read(at, 0)
    assert row.records
    await tier.close()


@serving()
async def test_a_damaged_object_is_a_retriable_error_and_one_line(at: Serving) -> None:
    tier = await tiered(at)
    kept = dict(tier.bucket.objects)
    tier.bucket.damage()
    for offset in (0, 4, SEGMENT):
        assert (await read(at, offset)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(warnings(at)) == 1
    tier.bucket.objects.update(kept)
    assert (await read(at, 0)).records
    await tier.close()


@serving()
async def test_a_segment_that_was_deleted_meanwhile_is_no_fault(at: Serving) -> None:
    tier = await tiered(at)
    segment = tier.remote.segments()[0]
    tier.bucket.delay_ms = 50
    sent = ask(at, 0)
    await at.pass_ms(10)
    tier.delete(segment)
    tier.bucket.objects.clear()
    await sent.answered.wait()
    assert row_of(sent).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not warnings(at)
    await tier.close()


@serving()
async def test_nothing_remote_is_served_before_its_segments_are_known(at: Serving) -> None:
    tier = await tiered(at)
    tier.served.is_ready = False
    row = await read(at, 0)
    assert row.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    at.partition("t").attach_remote(None)
    assert (await read(at, 0)).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    assert (await read(at, 2 * SEGMENT)).records, "the local part is served"
    assert (await read(at, -1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    for timestamp, code, offset in (
        (NOW, ErrorCode.REPLICA_NOT_AVAILABLE, -1),
        (-3, ErrorCode.REPLICA_NOT_AVAILABLE, -1),
        (-5, 0, -1),
        (-6, 0, -1),
        (-2, 0, 0),
        (-4, 0, 2 * SEGMENT),
    ):
        assert await found(at, timestamp) == (code, offset), timestamp
    await tier.close()


@serving()
async def test_below_the_log_start_an_offset_is_out_of_range(at: Serving) -> None:
    tier = await tiered(at)
    partition = at.partition("t")
    partition.delete_records(4)
    assert (await read(at, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    row = await read(at, 4)
    assert first_offset(row) == 3, "the batch that has it"
    assert row.log_start_offset == 4
    assert (await read(at, SEGMENTS * SEGMENT + 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    await tier.close()


@serving()
async def test_another_replica_is_sent_to_the_remote_tier(at: Serving) -> None:
    tier = await tiered(at)
    at.begin_epoch("t")
    request = fetch(("t", want(0, 0)), replica_id=2)
    sent = at.send(request, VERSION)
    await sent.answered.wait()
    assert row_of(sent).error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert tier.reads.counts.requests == 0
    await tier.close()


@serving()
async def test_a_leader_goes_on_behind_a_hole_and_a_follower_sends_to_the_leader(
    at: Serving,
) -> None:
    tier = await tiered(at)
    first, second, _ = tier.remote.segments()
    tier.delete(first)
    assert first_offset(await read(at, 0)) == SEGMENT
    tier.delete(second)
    row = await read(at, 0)
    assert first_offset(row) == 2 * SEGMENT, "the local log has the next records"
    at.follow("t")
    assert (await read(at, 0)).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    await tier.close()


@serving()
async def test_a_consumer_of_a_follower_reads_its_remote_part(at: Serving) -> None:
    tier = await tiered(at)
    at.follow("t")
    assert first_offset(await read(at, SEGMENT)) == SEGMENT
    await tier.close()


@serving()
async def test_what_was_kept_is_not_given_once_its_segment_is_not_served(at: Serving) -> None:
    tier = await tiered(at)
    await read(at, 0)
    assert tier.reads.kept_bytes
    tier.delete(tier.remote.segments()[0])
    assert first_offset(await read(at, 0)) == SEGMENT
    await tier.close()


@serving()
async def test_what_is_kept_is_bounded(at: Serving) -> None:
    tier = await tiered(at, limits=ReadLimits(kept_bytes_max=3_000))
    for offset in range(0, 2 * SEGMENT, COUNT):
        assert (await read(at, offset)).records
        assert tier.reads.kept_bytes <= 3_000
    await tier.close()


@serving()
async def test_the_limit_of_a_partition_is_kept_with_remote_records(at: Serving) -> None:
    tier = await tiered(at)
    size = len(tier.batches[0].data)
    for limit, given in ((1, size), (size, size), (size + 100, size + 100), (1 << 20, 5 * size)):
        row = await read(at, 0, partition_max_bytes=limit)
        assert len(row.records) == given, limit
    await tier.close()


@serving()
async def test_a_quota_of_remote_reads_holds_them_back_and_not_local_ones(at: Serving) -> None:
    quota = ReplicationQuota()
    quota.bytes_per_second = 100
    tier = await tiered(at, quota=quota)
    assert (await read(at, 0)).records
    row = await read(at, SEGMENT)
    assert (row.error_code, row.records) == (0, b"")
    assert (await read(at, 2 * SEGMENT)).records
    assert tier.reads.counts.throttled == 1
    await at.pass_ms(60_000)
    assert (await read(at, SEGMENT)).records
    await tier.close()


@serving()
async def test_reads_that_are_too_many_wait_or_are_asked_for_again(at: Serving) -> None:
    tier = await tiered(at, limits=ReadLimits(running_max=1, waiting_max=1))
    tier.bucket.delay_ms = 20
    sent = [ask(at, offset) for offset in (0, COUNT, 2 * COUNT)]
    for each in sent:
        await each.answered.wait()
    assert [bool(row_of(each).records) for each in sent] == [True, True, False]
    assert tier.reads.counts.refused == 1
    assert (await read(at, 2 * COUNT)).records
    await tier.close()


@serving()
async def test_the_end_of_a_partition_answers_its_readers(at: Serving) -> None:
    tier = await tiered(at)
    tier.bucket.delay_ms = 10_000
    sent = ask(at, 0)
    await at.pass_ms(1)
    tier.served.close()
    await at.pass_ms(1)
    assert row_of(sent).error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    await tier.close()


# ListOffsets.


async def found(at: Serving, timestamp: int, version: int = 11, **more: Any) -> tuple[int, int]:
    answer = await at.ask(list_offsets(timestamp, **more), ListOffsetsResponse, version)
    row = answer.topics[0].partitions[0]
    return row.error_code, row.offset


@serving()
async def test_offsets_of_every_kind_over_both_tiers(at: Serving) -> None:
    tier = await tiered(at)
    end = SEGMENTS * SEGMENT
    for timestamp, offset in (
        (-1, end),
        (-2, 0),
        (-3, end - 1),
        (-4, 2 * SEGMENT),
        (-5, 3 * SEGMENT - 1),
        (-6, 3 * SEGMENT),
        (0, 0),
        (NOW + 1, 1),
        (NOW + 1000, SEGMENT),
        (NOW + 1011, SEGMENT + COUNT + 1),
        (NOW + 2000, 2 * SEGMENT),
        (NOW + 3042, end - 1),
        (NOW + 3043, -1),
    ):
        assert await found(at, timestamp) == (0, offset), timestamp
    since = {-4: 8, -5: 9, -6: 11}
    for timestamp, version in since.items():
        code, _ = await found(at, timestamp, version - 1)
        assert code == ErrorCode.UNSUPPORTED_VERSION
        assert (await found(at, timestamp, version))[0] == 0
    await tier.close()


@serving()
async def test_offsets_of_the_remote_tier_without_a_remote_segment(at: Serving) -> None:
    at.create("t")
    fill(at)
    tier = Tier(at, at.partition("t"))
    tier.cut(0)
    assert await found(at, -5) == (0, -1)
    assert await found(at, -6) == (0, 0), "all of it waits"
    await tier.copy(0, SEGMENT)
    assert await found(at, -5) == (0, SEGMENT - 1)
    assert await found(at, -6) == (0, SEGMENT)
    await tier.copy(2 * SEGMENT, 3 * SEGMENT)
    assert await found(at, -5) == (0, 3 * SEGMENT - 1)
    assert await found(at, -6) == (0, SEGMENT), "a hole is copied again"
    await tier.close()


@serving()
async def test_records_of_a_lost_history_behind_a_part_are_not_found(at: Serving) -> None:
    """Offsets 0 to 8 are in a segment that goes on with newer records of a deposed leader."""
    at.create("t")
    partition = at.partition("t")
    for number in range(BATCHES):
        write(partition, COUNT, at_ms=NOW + (90_000 if number == 1 else 10 * number))
    roll(partition)
    write(partition, COUNT, at_ms=NOW + 1000)
    tier = Tier(at, partition)
    lost = [
        *tier.batches[:3],
        *(lost_batch(each, NOW + 99_000) for each in tier.batches[3:BATCHES]),
    ]
    await tier.copy(0, SEGMENT, batches=lost)
    await tier.copy(3 * COUNT, SEGMENT)
    assert tier.cut(SEGMENT) == SEGMENT
    assert await found(at, NOW + 90_001) == (0, COUNT + 1)
    assert await found(at, NOW + 95_000) == (0, -1)
    assert await found(at, -3) == (0, COUNT + 2)
    assert (await read(at, 0)).records == b"".join(each.data for each in tier.batches[:3])
    await tier.close()


@serving()
async def test_a_search_gives_up_when_the_request_says(at: Serving) -> None:
    tier = await tiered(at)
    tier.bucket.delay_ms = 3_000
    begun = at.now_ms
    assert (await found(at, NOW, timeout_ms=1_000))[0] == ErrorCode.REQUEST_TIMED_OUT
    assert 1_000 <= at.now_ms - begun < 1_050
    await at.pass_ms(10_000)
    tier.bucket.delay_ms = 0
    assert await found(at, NOW) == (0, 0)
    await tier.close()


@serving()
async def test_a_search_in_a_damaged_object_is_a_retriable_error(at: Serving) -> None:
    tier = await tiered(at)
    tier.bucket.damage()
    assert (await found(at, NOW))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert await found(at, NOW + 2000 + 1) == (0, 2 * SEGMENT + 1), "old segments are not opened"
    assert len(warnings(at)) == 1
    await tier.close()
