"""Share groups and dead letters over a log whose oldest records are in a store."""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

import pytest

from moldau.broker.log.marker import Marker
from moldau.broker.share.persister import ShareKey
from moldau.broker.share.piece import Letter
from moldau.broker.share.settings import DeadLetterTopic
from moldau.broker.tiered.served_partition import ServedPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.records import iter_records
from tests.broker.api.requests import NOW
from tests.broker.api.serving import Serving, serving
from tests.broker.api.share_group import GROUP, configure, coordinated
from tests.broker.api.tiered_log import Tier, roll, write, write_in_transaction

COUNT: Final = 3
LOCAL: Final = 12
END: Final = 15
DEAD: Final = "dead"


async def tiered(at: Serving, *, committed: bool = False) -> tuple[bytes, Tier]:
    """A topic that is remote up to LOCAL, in two segments. Offsets 0 to 2 and 9 to 10 are of
    transactions that were aborted, if `committed`."""
    topic_id = await coordinated(at)
    partition = at.partition("orders")
    if committed:
        configure(at, **{"share.isolation.level": "read_committed"})
        write_in_transaction(partition, 7, 0, 2)
        write(partition, 3)
        partition.append_own(Marker(7, 0, False, 0, 1).batch(NOW), NOW)
        roll(partition)
        write(partition, 3)
        write_in_transaction(partition, 8, 0, 2)
        partition.append_own(Marker(8, 0, False, 0, 1).batch(NOW), NOW)
    else:
        write(partition, 6, at_ms=at.wall_ms - 200_000)
        roll(partition)
        write(partition, 6, at_ms=at.wall_ms - 100_000)
    roll(partition)
    write(partition, END - LOCAL, at_ms=at.wall_ms)
    tier = Tier(at, partition)
    await tier.copy(0, 6)
    await tier.copy(6, LOCAL)
    assert tier.cut(LOCAL) == LOCAL
    await join(at)
    return topic_id, tier


async def join(at: Serving) -> None:
    """Let the member have its partition."""
    epoch = 0
    for _ in range(20):
        beat = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="a",
            member_epoch=epoch,
            subscribed_topic_names=["orders"],
        )
        answer = await at.ask(beat, ShareGroupHeartbeatResponse)
        assert answer.error_code == 0
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return
        await at.pass_ms(1_000)
    raise AssertionError("the member has no partition")


async def fetch(at: Serving, topic_id: bytes, epoch: int, **more: Any) -> Any:
    """The row of the partition, or None."""
    fields: dict[str, Any] = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_records": 500,
        "batch_size": 500,
        **more,
    }
    partition = FetchPartition(partition_index=0, acknowledgement_batches=[])
    topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
    request = ShareFetchRequest(
        group_id=GROUP,
        member_id="a",
        share_session_epoch=epoch,
        topics=[] if epoch else topics,
        forgotten_topics_data=[],
        **fields,
    )
    answer = await at.ask(request, ShareFetchResponse)
    assert answer.error_code == 0, answer
    rows = [row for topic in answer.responses for row in topic.partitions]
    return rows[0] if rows else None


async def acquired(at: Serving, topic_id: bytes, requests: int) -> list[int]:
    """The offsets that a member gets in some requests."""
    found: list[int] = []
    for epoch in range(requests):
        row = await fetch(at, topic_id, epoch)
        if row is None:
            continue
        assert row.error_code == 0
        offsets = [record.offset for record in iter_records(bytes(row.records or b""))]
        for each in row.acquired_records:
            found += [
                offset for offset in offsets if each.first_offset <= offset <= each.last_offset
            ]
    return found


@serving()
async def test_a_share_group_reads_through_both_tiers(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    assert await acquired(at, topic_id, 5) == list(range(END))
    await tier.close()


@serving()
async def test_a_share_fetch_waits_for_a_slow_store_and_is_woken_by_it(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    tier.bucket.delay_ms = 100
    await fetch(at, topic_id, 0, max_wait_ms=0)  # loads the share partition
    begun = at.now_ms
    row = await fetch(at, topic_id, 1, max_wait_ms=30_000)
    assert row.acquired_records
    assert 90 <= at.now_ms - begun < 450
    await tier.close()


@serving()
async def test_a_share_fetch_that_counts_its_bytes_first_reads_once(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    tier.bucket.delay_ms = 100
    await fetch(at, topic_id, 0, max_wait_ms=0)  # loads the share partition
    with patch.object(
        ServedPartition, "read", autospec=True, side_effect=ServedPartition.read
    ) as read:
        row = await fetch(at, topic_id, 1, max_wait_ms=30_000, min_bytes=50)
    assert row.acquired_records
    assert read.call_count == 1
    await tier.close()


@serving()
async def test_a_share_fetch_that_does_not_wait_gets_what_came_after_it(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    await fetch(at, topic_id, 0)
    tier.bucket.delay_ms = 2_000
    for epoch in range(1, 20):
        row = await fetch(at, topic_id, epoch)
        if row is not None and row.acquired_records:
            break
    assert row is not None
    assert tier.reads.counts.requests <= 2
    await tier.close()


@serving()
async def test_aborted_transactions_of_the_remote_part_are_not_delivered(at: Serving) -> None:
    topic_id, tier = await tiered(at, committed=True)
    expected = [2, 3, 4, 6, 7, 8, *range(LOCAL, END)]
    assert await acquired(at, topic_id, 5) == expected
    await tier.close()


@serving()
async def test_a_failing_store_is_the_error_of_the_share_partition(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    tier.bucket.damage()
    row = await fetch(at, topic_id, 0)
    if row is None or not row.error_code:
        row = await fetch(at, topic_id, 1)
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    await tier.close()


@pytest.mark.parametrize(
    ("seconds", "start"), [(500, 0), (150, 6), (50, LOCAL)], ids=["first", "second", "local"]
)
def test_a_group_that_begins_at_a_time_finds_it_in_either_tier(seconds: int, start: int) -> None:
    @serving()
    async def run(at: Serving) -> None:
        topic_id, tier = await tiered(at)
        configure(at, **{"share.auto.offset.reset": f"by_duration:PT{seconds}S"})
        await fetch(at, topic_id, 0)
        await at.pass_ms(1_000)
        share = at.node.shares.get(ShareKey(GROUP, topic_id, 0))
        assert share is not None
        assert share.window is not None
        assert share.window.start_offset == start
        await tier.close()

    run()


@serving()
async def test_a_group_that_begins_at_a_time_fails_with_the_store_and_is_loaded_anew(
    at: Serving,
) -> None:
    topic_id, tier = await tiered(at)
    configure(at, **{"share.auto.offset.reset": "by_duration:PT500S"})
    kept = dict(tier.bucket.objects)
    tier.bucket.damage()
    await fetch(at, topic_id, 0)
    share = at.node.shares.get(ShareKey(GROUP, topic_id, 0))
    assert share is None or share.window is None
    tier.bucket.objects.update(kept)
    for epoch in range(1, 6):
        row = await fetch(at, topic_id, epoch)
        if row is not None and row.acquired_records:
            break
    assert row is not None
    assert row.acquired_records[0].first_offset == 0
    await tier.close()


@serving()
async def test_dead_letters_of_remote_records_have_their_content(at: Serving) -> None:
    topic_id, tier = await tiered(at)
    at.create(DEAD)
    tier.bucket.delay_ms = 50
    results: list[KafkaError | None] = []
    letters = (Letter(4, 7, 2, "rejected"), Letter(11, 12, 1, "rejected"))
    key = ShareKey(GROUP, topic_id, 0)
    at.node.dead_letters.bury(
        key, at.partition("orders"), DeadLetterTopic(DEAD), letters, results.append
    )
    for _ in range(50):
        await at.pass_ms(100)
    assert results == [None]
    copies = at.partition(DEAD).read_own(0, 1 << 20).read()
    wanted = [b"%d" % offset for offset in (4, 5, 6, 7, 11, 12)]
    headers = [dict(record.headers)["__dlq.errors.offset"] for record in iter_records(copies)]
    assert [bytes(value or b"") for value in headers] == wanted
    assert all(record.value for record in iter_records(copies))
    await tier.close()
