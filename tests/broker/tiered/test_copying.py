"""What is copied next, and how far the copies of a log reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.broker.log.leader_epochs import EpochEntry
from moldau.broker.tiered.copying import (
    CopyLag,
    LocalLog,
    LocalSegment,
    SegmentOrigin,
    begin_copy,
    copied_end,
    next_copy,
)
from moldau.broker.tiered.metadata_records import decode, encode
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import SegmentState
from tests.broker.tiered.segments import (
    NOW,
    TOPIC_ID,
    changed,
    copied,
    finished,
    local_log,
    segment,
)

AT_ONCE = CopyLag()


def next_offsets(
    remote: RemotePartition, log: LocalLog, lag: CopyLag = AT_ONCE, now_ms: int = NOW
) -> tuple[int, int] | None:
    found = next_copy(remote, log, lag, now_ms)
    return None if found is None else (found.start_offset, found.end_offset)


def test_segments_are_copied_in_order_and_the_active_one_never() -> None:
    log = local_log(0, 10, 20, 25)
    first, second = segment(1, range(10)), segment(2, range(10, 20))
    assert next_offsets(RemotePartition(), log) == (0, 10)
    assert next_offsets(copied(first), log) == (10, 20)
    assert next_offsets(copied(first, second), log) is None
    assert copied_end(copied(first, second), log) == 20


def test_a_copy_counts_when_it_is_finished_and_no_more_when_it_is_deleted() -> None:
    log = local_log(0, 10, 20, 25)
    remote = copied(segment(1, range(10)))
    remote.replay(segment(2, range(10, 20)))
    assert copied_end(remote, log) == 10
    remote.replay(changed(2, SegmentState.COPY_FINISHED))
    assert copied_end(remote, log) == 20
    remote.replay(changed(1, SegmentState.DELETE_STARTED))
    assert copied_end(remote, log) == 0


def test_a_hole_is_copied_before_what_is_behind_it() -> None:
    log = local_log(0, 10, 20, 30, 35)
    remote = copied(segment(1, range(10)), segment(3, range(20, 30)))
    assert copied_end(remote, log) == 10
    assert next_offsets(remote, log) == (10, 20)


@pytest.mark.parametrize(("last_stable", "found"), [(19, None), (20, (10, 20))])
def test_a_segment_with_an_open_transaction_waits(
    last_stable: int, found: tuple[int, int] | None
) -> None:
    log = replace(local_log(0, 10, 20, 25), last_stable_offset=last_stable)
    assert next_offsets(copied(segment(1, range(10))), log) == found


def test_records_below_the_start_of_the_log_need_no_copy() -> None:
    log = local_log(0, 10, 20, 25, epochs=((0, 12),), log_start=12)
    assert next_offsets(RemotePartition(), log) == (10, 20)
    begun = begin_copy(SegmentOrigin("orders", TOPIC_ID, 0, 1), log.segments[1], log.chain, b"i", 5)
    assert begun.leader_epochs == ((0, 12),)
    remote = copied(segment(1, range(10, 20), begun.leader_epochs))
    assert copied_end(remote, log) == 20


def test_local_segments_that_end_elsewhere_than_the_remote_ones_overlap_them() -> None:
    log = local_log(0, 7, 19, 31, 40)
    assert next_offsets(copied(segment(1, range(10))), log) == (7, 19)


def test_what_a_deposed_leader_copied_of_a_lost_history_is_not_copied() -> None:
    """Broker 1 copied up to 100 in epoch 1. Broker 2, elected uncleanly, had 80 records."""
    remote = copied(segment(1, range(60), ((1, 0),)), segment(2, range(60, 100), ((1, 60),)))
    log = local_log(50, 90, 130, 140, epochs=((1, 0), (2, 80)))
    assert copied_end(remote, log) == 80
    assert next_offsets(remote, log) == (50, 90)
    own = segment(3, range(50, 90), ((1, 50), (2, 80)))
    for event in finished(own):
        remote.replay(event)
    assert next_offsets(remote, log) == (90, 130)


def test_an_end_of_an_epoch_that_was_deleted_between_two_elections_is_not_copied() -> None:
    """Kafka remembers the highest offset of epoch 1, and would cut the local log up to it."""
    log = local_log(0, 50, 90, 95, epochs=((1, 0),))
    remote = copied(segment(1, range(50), ((1, 0),)), segment(2, range(50, 90), ((1, 50),)))
    remote.replay(changed(2, SegmentState.DELETE_STARTED))
    assert copied_end(remote, log) == 50
    assert next_offsets(remote, log) == (50, 90)


def test_a_log_without_an_epoch_for_its_first_record_is_not_copied_again_and_again() -> None:
    log = local_log(0, 10, 20, 25, epochs=((3, 10),))
    assert next_offsets(RemotePartition(), log) is None


@pytest.mark.parametrize(
    ("lag", "age_ms", "is_due"),
    [
        (CopyLag(ms=0, size_bytes=-1), 0, True),
        (CopyLag(ms=100, size_bytes=0), 0, True),
        (CopyLag(ms=100, size_bytes=-1), 99, False),
        (CopyLag(ms=100, size_bytes=-1), 100, True),
        (CopyLag(ms=100, size_bytes=-1), -1, True),  # a timestamp in the future
        (CopyLag(ms=-1, size_bytes=-1), 10**9, False),
        (CopyLag(ms=100, size_bytes=200), 0, True),  # 200 bytes stand behind the first one
        (CopyLag(ms=100, size_bytes=201), 0, False),
        (CopyLag(ms=-1, size_bytes=200), 0, True),
    ],
)
def test_a_lag_holds_a_copy_back_until_one_of_its_limits_is_reached(
    lag: CopyLag, age_ms: int, is_due: bool
) -> None:
    log = local_log(0, 10, 20, 25)
    found = next_offsets(RemotePartition(), log, lag, NOW + age_ms)
    assert found == ((0, 10) if is_due else None)


def test_a_lag_holds_back_all_that_follows() -> None:
    log = local_log(0, 10, 20, 30, 35)
    lag = CopyLag(ms=-1, size_bytes=200)
    assert next_offsets(RemotePartition(), log, lag) == (0, 10)
    assert next_offsets(copied(segment(1, range(10))), log, lag) == (10, 20)
    done = copied(segment(1, range(10)), segment(2, range(10, 20)))
    assert next_offsets(done, log, lag) is None


def test_the_record_of_a_copy_has_the_facts_of_the_local_segment() -> None:
    log = local_log(0, 40, 90, 95, epochs=((1, 0), (3, 50), (4, 90)))
    local = LocalSegment(40, 90, NOW - 5, 1234, has_transaction_index=True)
    origin = SegmentOrigin("orders", TOPIC_ID, 6, 2)
    begun = begin_copy(origin, local, log.chain, bytes(range(16)), NOW)
    assert begun.leader_epochs == (EpochEntry(1, 40), EpochEntry(3, 50))
    assert begun.has_transaction_index
    assert (begun.start_offset, begun.end_offset, begun.size_bytes) == (40, 90, 1234)
    assert (begun.max_timestamp_ms, begun.event_ms, begun.broker_id) == (NOW - 5, NOW, 2)
    assert begun.id == (TOPIC_ID, 6, bytes(range(16)))
    assert begun.state is SegmentState.COPY_STARTED
    assert decode(encode(begun)) == begun
