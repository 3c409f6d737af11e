"""The turns of a sink task, in numbers: polls, puts, looks and commits."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.connect.task.sink_schedule import LOOK_EVERY_MS, POLL_S, RETRY_MS, SinkSchedule

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def schedule() -> SinkSchedule:
    made = SinkSchedule(10_000, 0, is_paused=False)
    made.on_assigned([T0, T1])
    made.on_looked(0)
    return made


def test_a_poll_waits_no_longer_than_until_the_next_commit() -> None:
    turns = schedule()
    assert turns.ready(0, has_pending=False).poll_s == POLL_S
    assert turns.ready(9_900, has_pending=False).poll_s == 0.1
    assert [turns.ready(now, has_pending=False).commits for now in (9_999, 10_000)] == [False, True]
    turns.on_commit(10_000)
    assert not turns.ready(19_999, has_pending=False).commits
    turns.on_commit_request()
    assert turns.ready(10_001, has_pending=False).commits


def test_refused_records_are_put_again_after_the_time_that_the_sink_asks_for() -> None:
    turns = schedule()
    assert turns.on_refused(0) == RETRY_MS
    assert not turns.reads
    assert [turns.ready(now, has_pending=True).puts for now in (999, 1_000)] == [False, True]
    turns.on_put_begins()
    turns.on_timeout(200)
    assert turns.on_refused(1_000) == 200
    assert turns.ready(1_000, has_pending=True).poll_s == 0.2
    turns.on_put()
    assert turns.reads


def test_a_paused_task_puts_what_waits_and_nothing_else() -> None:
    turns = schedule()
    turns.is_paused = True
    assert not turns.ready(0, has_pending=False).puts
    assert turns.ready(0, has_pending=True).puts


def test_partitions_that_go_take_their_pause_and_an_empty_retry_with_them() -> None:
    turns = schedule()
    turns.paused.add(T0)
    turns.on_refused(0)
    turns.on_gone([T0], is_empty=False)
    assert (turns.assigned, turns.paused) == ({T1}, set())
    assert not turns.ready(0, has_pending=True).puts
    turns.on_gone([T1], is_empty=True)
    assert turns.ready(0, has_pending=True).puts


def test_missing_topics_are_looked_for_at_times() -> None:
    turns = schedule()
    looks = [turns.ready(now, has_pending=False).looks for now in (0, LOOK_EVERY_MS)]
    assert looks == [False, True]
