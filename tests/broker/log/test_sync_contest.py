"""The contest between the kernel's workers and threads: fair, decided, and held again."""

from __future__ import annotations

from moldau.broker.log.group_commit import ROUNDS, TRIES, SyncContest


def play(contest: SyncContest, rounds: int, *, threads: float, kernel: float) -> list[bool]:
    """Which rounds the kernel had, when they take so long."""
    had = []
    for _ in range(rounds):
        by_kernel = contest.is_kernel_next
        had.append(by_kernel)
        contest.took(kernel if by_kernel else threads, by_kernel=by_kernel)
    return had


def test_the_ways_take_turns_before_one_is_chosen() -> None:
    assert play(SyncContest(), 2 * TRIES, threads=1, kernel=1) == [True, False] * TRIES


def test_the_kernel_has_the_rounds_where_it_is_not_slower() -> None:
    contest = SyncContest()
    play(contest, 2 * TRIES, threads=1, kernel=1)
    assert play(contest, ROUNDS, threads=1, kernel=9) == [True] * ROUNDS


def test_threads_have_the_rounds_where_the_kernel_is_slow() -> None:
    contest = SyncContest()
    play(contest, 2 * TRIES, threads=1, kernel=1.01)
    assert play(contest, ROUNDS, threads=1, kernel=9) == [False] * ROUNDS


def test_one_slow_round_decides_nothing() -> None:
    contest = SyncContest()
    play(contest, 2, threads=1, kernel=1000)
    play(contest, 2 * TRIES - 2, threads=1, kernel=1)
    assert contest.is_kernel_next


def test_they_are_compared_again_when_the_winner_had_its_rounds() -> None:
    contest = SyncContest()
    play(contest, 2 * TRIES + ROUNDS, threads=1, kernel=9)
    assert play(contest, 2 * TRIES, threads=9, kernel=1) == [True, False] * TRIES
    assert contest.is_kernel_next


def test_a_kernel_that_takes_nothing_is_not_asked_for_long() -> None:
    contest = SyncContest()
    assert contest.is_kernel_next
    contest.took(1, by_kernel=False)
    assert play(contest, ROUNDS, threads=1, kernel=1) == [False] * ROUNDS
