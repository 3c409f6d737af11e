"""How far commits reach, as they are begun, stored, refused and cut off."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.client.group.commit_reach import CommitReach

T0 = TopicPartition("t", 0)
COURSE = 3


def begun(*ends: int) -> CommitReach:
    reach = CommitReach()
    for end in ends:
        reach.begins(T0, COURSE, end)
    return reach


def test_what_is_begun_counts_until_it_has_failed() -> None:
    reach = begun(10, 20)
    assert reach.end(T0, COURSE) == 20
    reach.has_failed(T0, 20)
    assert reach.end(T0, COURSE) == 10
    reach.has_failed(T0, 10)
    assert reach.end(T0, COURSE) == -1


def test_what_was_stored_while_the_next_was_under_way_counts_when_that_fails() -> None:
    reach = begun(10, 20)
    reach.is_stored(T0, 10)
    assert reach.end(T0, COURSE) == 20
    reach.has_failed(T0, 20)
    assert reach.end(T0, COURSE) == 10


def test_the_user_may_want_less() -> None:
    reach = begun(20, 5)
    assert reach.end(T0, COURSE) == 5
    reach.is_stored(T0, 20)
    reach.is_stored(T0, 5)
    assert reach.end(T0, COURSE) == 5


def test_what_was_cut_off_counts_until_a_later_one_is_stored() -> None:
    reach = begun(20, 10)
    reach.has_failed(T0, 10)
    assert reach.end(T0, COURSE) == 20
    reach.begins(T0, COURSE, 15)
    reach.is_stored(T0, 15)
    assert reach.end(T0, COURSE) == 15
    reach.has_failed(T0, 20)
    assert reach.end(T0, COURSE) == 15


def test_commits_that_are_cut_off_again_and_again_take_no_room() -> None:
    reach = begun(7)
    for end in range(20, 1020):
        reach.begins(T0, COURSE, end)
        reach.was_cut_off(T0, end)
    assert len(reach._begun[T0]) == 2
    assert reach.end(T0, COURSE) == 1019


def test_one_that_failed_is_not_taken_for_one_that_was_cut_off() -> None:
    reach = begun(20)
    reach.was_cut_off(T0, 20)
    reach.begins(T0, COURSE, 5)
    reach.begins(T0, COURSE, 20)
    reach.has_failed(T0, 20)
    assert reach.end(T0, COURSE) == 5


def test_another_course_knows_nothing_of_it() -> None:
    reach = begun(20)
    assert reach.end(T0, COURSE + 1) == -1
    reach.is_stored(T0, 20)
    assert reach.end(T0, COURSE + 1) == -1
    reach.begins(T0, COURSE + 1, 4)
    assert reach.end(T0, COURSE) == -1
    assert reach.end(T0, COURSE + 1) == 4


def test_what_was_not_begun_is_passed_over() -> None:
    reach = CommitReach()
    reach.is_stored(T0, 7)
    reach.has_failed(T0, 7)
    assert reach.end(T0, COURSE) == -1
