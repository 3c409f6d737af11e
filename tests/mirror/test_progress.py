"""How far a mirror is."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.mirror.progress import CopyProgress
from moldau.mirror.rounds import Schedule

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_what_is_copied_counts_from_where_the_run_began() -> None:
    progress = CopyProgress()
    begins, ends = {FIRST: 10, SECOND: 0}, {FIRST: 30, SECOND: 5}

    progress.on_look(begins, ends, {FIRST: 20})
    assert (progress.ready().copied, progress.ready().left) == (0, 15)
    progress.on_look(begins, ends, {FIRST: 30, SECOND: 3})
    ready = progress.ready()

    assert (ready.copied, ready.left) == (13, 2)
    assert ready.line(2.0) == "1 topic, 2 partitions: 13 copied (6/s), 2 to go"
    assert not ready.is_done


def test_a_partition_that_rests_before_its_end_is_unsure_until_it_was_looked_into() -> None:
    progress = CopyProgress()
    for _ in range(2):
        progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 9})
    assert progress.ready().unsure == (FIRST,)

    progress.on_end_reached(FIRST, 10)

    assert progress.ready().is_done


def test_a_fixed_end_does_not_run_away() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {})
    progress.on_look({FIRST: 0}, {FIRST: 99}, {FIRST: 10})

    assert progress.ready().is_done


def test_a_topic_that_was_created_anew_is_left_whole() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 8})
    progress.on_look({FIRST: 0}, {FIRST: 10}, {FIRST: 10})
    assert progress.ready().is_done

    progress.on_look({FIRST: 0}, {FIRST: 3}, {})
    assert (progress.ready().copied, progress.ready().left) == (2, 3)
    progress.on_look({FIRST: 0}, {FIRST: 3}, {FIRST: 3})

    assert (progress.ready().copied, progress.ready().left) == (5, 0)


def test_an_end_that_moves_back_is_the_goal_then() -> None:
    progress = CopyProgress(has_fixed_ends=True)
    progress.on_look({FIRST: 0}, {FIRST: 10}, {})
    progress.on_look({FIRST: 0}, {FIRST: 4}, {FIRST: 4})

    assert progress.ready().is_done


def test_a_job_is_due_once_in_each_interval() -> None:
    schedule = Schedule({"often": 1.0, "rarely": 3.0}, 10.0)

    assert schedule.ready(10.5) == []
    assert schedule.ready(11.0) == ["often"]
    assert schedule.ready(11.0) == []
    assert schedule.ready(14.0) == ["often", "rarely"]
