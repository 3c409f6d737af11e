"""The remote work of a partition step by step: what follows what, and what is given up."""

from __future__ import annotations

from random import Random

import pytest

from moldau.broker.tiered.copying import CopyLag, LocalLog, SegmentOrigin
from moldau.broker.tiered.expiry import Retention
from moldau.broker.tiered.remote_log import Ready, RemoteLog, TierSettings
from moldau.broker.tiered.remote_segment import (
    RemoteEvent,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from moldau.runtime.backoff import Backoff
from tests.broker.tiered.segments import NOW, TOPIC, TOPIC_ID, finished, local_log, segment

ORIGIN = SegmentOrigin(TOPIC, TOPIC_ID, 0, 1)
STARTED, FINISHED, DELETING, DELETED = SegmentState
LOG = local_log(0, 10, 20, 25)
CUTS = TierSettings(local_retention=Retention(size_bytes=0))


def leader(*read: RemoteEvent, settings: TierSettings | None = None) -> RemoteLog:
    made = RemoteLog(ORIGIN, Random(1), Backoff(100, 400, jitter=0.0))
    made.on_settings(settings or TierSettings())
    for event in read:
        made.on_record(event)
    made.on_leader(3)
    return made


def look(work: RemoteLog, log: LocalLog = LOG, low_watermark: int = 0, now: int = NOW) -> Ready:
    return work.ready(log, low_watermark, now)


def written(work: RemoteLog, log: LocalLog = LOG, now: int = NOW) -> RemoteEvent:
    """The one event that is to be appended."""
    (event,) = look(work, log, now=now).writes
    return event


def announced(work: RemoteLog) -> RemoteSegment:
    """A copy whose COPY_STARTED is read back, and whose objects are being put."""
    work.on_record(written(work))
    put = look(work).put
    assert put is not None
    return put


def test_a_copy_is_announced_put_confirmed_and_only_then_cut() -> None:
    work = leader(settings=CUTS)
    first = look(work)
    (event,) = first.writes
    assert isinstance(event, RemoteSegment)
    assert (event.start_offset, event.end_offset, event.state) == (0, 10, STARTED)
    assert first.put is None
    assert look(work).writes == ()  # it is being appended
    work.on_record(event)
    assert look(work).put == event
    assert look(work).put is None  # it is being put
    work.on_put(event.id, b"v1", NOW)
    after = look(work)
    (done,) = after.writes
    assert done == SegmentUpdate(event.id, TOPIC, FINISHED, 1, NOW, b"v1")
    assert after.local_start_offset is None
    work.on_record(done)
    last = look(work)
    assert last.local_start_offset == 10
    assert [each.start_offset for each in last.writes if isinstance(each, RemoteSegment)] == [10]


def test_an_append_without_an_answer_is_repeated_until_it_is_read_back() -> None:
    work = leader()
    event = written(work)
    work.on_write_failed(event, NOW)
    waiting = look(work, now=NOW + 99)
    assert (waiting.writes, waiting.due_ms) == ((), NOW + 100)
    assert written(work, now=NOW + 100) == event
    work.on_record(event)  # of the first append
    assert look(work, now=NOW + 100).put == event
    work.on_write_failed(event, NOW + 100)
    assert look(work, now=NOW + 300).writes == ()


def test_a_put_that_failed_is_given_up_and_its_segment_deleted() -> None:
    work = leader()
    put = announced(work)
    work.on_put_failed(put.id, NOW)
    begun = written(work)
    assert begun == SegmentUpdate(put.id, TOPIC, DELETING, 1, NOW)
    work.on_record(begun)
    assert [each.id for each in look(work).deletes] == [put.id]
    assert look(work).deletes == ()  # they are being deleted
    work.on_deleted(put.id, NOW)
    gone = written(work)
    assert gone == SegmentUpdate(put.id, TOPIC, DELETED, 1, NOW)
    work.on_record(gone)
    assert look(work).writes == ()
    again = written(work, now=NOW + 100)
    assert isinstance(again, RemoteSegment)
    assert again.id != put.id


def test_a_late_success_of_an_attempt_that_was_given_up_changes_nothing() -> None:
    work = leader()
    put = announced(work)
    work.on_put_failed(put.id, NOW)
    work.on_put(put.id, b"v1", NOW)
    event = written(work)
    assert isinstance(event, SegmentUpdate)
    assert event.state is DELETING


def test_a_deletion_that_failed_is_tried_again_after_a_pause() -> None:
    gone = segment(7, range(10))
    work = leader(gone, SegmentUpdate(gone.id, TOPIC, DELETING, 2, NOW))
    assert [each.id for each in look(work).deletes] == [gone.id]
    work.on_delete_failed(gone.id, NOW)
    assert look(work, now=NOW + 99).deletes == ()
    assert [each.id for each in look(work, now=NOW + 100).deletes] == [gone.id]


def test_a_leader_that_is_deposed_forgets_what_it_began() -> None:
    work = leader(settings=CUTS)
    put = announced(work)
    work.on_follower()
    work.on_put(put.id, b"v1", NOW)
    assert look(work) == Ready()
    done = SegmentUpdate(put.id, TOPIC, FINISHED, 2, NOW, b"v1")
    work.on_record(done)
    assert look(work) == Ready(local_start_offset=10)


def test_a_copy_that_a_successor_deleted_is_given_up() -> None:
    work = leader()
    put = announced(work)
    work.on_record(SegmentUpdate(put.id, TOPIC, DELETING, 2, NOW))
    work.on_put(put.id, b"v1", NOW)
    events = look(work).writes
    assert [each.state for each in events if isinstance(each, SegmentUpdate)] == []
    (again,) = (each for each in events if isinstance(each, RemoteSegment))
    assert again.id != put.id


def test_a_copy_that_its_broker_finished_meanwhile_is_not_deleted() -> None:
    """The deletion was decided when the copy looked unfinished, and is in the topic behind it."""
    other = segment(7, range(10))
    work = leader(other)
    begun = next(each for each in look(work).writes if isinstance(each, SegmentUpdate))
    assert begun.state is DELETING
    work.on_record(SegmentUpdate(other.id, TOPIC, FINISHED, 2, NOW, b"v1"))
    work.on_record(begun)
    known = work.remote.get(other.id)
    assert known is not None
    assert known.state is FINISHED
    assert not [each for each in look(work).writes if isinstance(each, SegmentUpdate)]


def test_a_segment_that_is_cut_before_its_put_is_not_put() -> None:
    work = leader()
    work.on_record(written(work))
    raised = local_log(0, 10, 20, 25, log_start=12)
    ready = look(work, raised)
    assert (ready.put, ready.local_start_offset) == (None, 10)


def test_a_new_leader_raises_its_start_to_what_a_tier_has() -> None:
    work = leader(*finished(segment(1, range(10, 20))))
    log = local_log(20, 30, 35)
    assert look(work, log).log_start_offset == 10
    assert look(work, log).log_start_offset is None


@pytest.mark.parametrize(("low_watermark", "count"), [(9, 0), (10, 1)])
def test_objects_wait_until_all_replicas_know_the_start(low_watermark: int, count: int) -> None:
    work = leader(*finished(segment(1, range(10)), segment(2, range(10, 20))))
    log = local_log(20, 25, log_start=10)
    assert len(look(work, log, low_watermark).writes) == count


def test_without_copies_the_local_log_is_kept_as_long_as_the_whole() -> None:
    settings = TierSettings(
        retention=Retention(size_bytes=200),
        local_retention=Retention(size_bytes=0),
        is_copied=False,
    )
    work = leader(*finished(segment(1, range(10)), segment(2, range(10, 20))), settings=settings)
    ready = look(work)
    assert (ready.local_start_offset, ready.log_start_offset, ready.writes) == (10, 10, ())


def test_a_partition_that_is_no_longer_remote_begins_where_the_local_log_does() -> None:
    settings = TierSettings(is_remote=False)
    work = leader(*finished(segment(1, range(10)), segment(2, range(10, 20))), settings=settings)
    log = local_log(15, 25, 30)
    assert look(work, log).log_start_offset == 15
    raised = local_log(15, 25, 30, log_start=15)
    assert look(work, raised, low_watermark=0).writes == ()
    events = look(work, raised, low_watermark=15).writes
    assert [each.state for each in events if isinstance(each, SegmentUpdate)] == [DELETING] * 2


def test_what_is_asked_for_is_copied_without_its_lag() -> None:
    work = leader(settings=TierSettings(lag=CopyLag(-1, -1)))
    assert look(work).writes == ()
    work.on_copy_now(10)
    event = written(work)
    assert isinstance(event, RemoteSegment)
    assert (event.start_offset, event.end_offset) == (0, 10)
    for each in finished(event):
        work.on_record(each)
    assert look(work).writes == ()
