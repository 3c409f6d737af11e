"""What is committed: majorities of voters, and only with a record of the leader's own epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.raft.leader import Leader
from moldau.broker.raft.messages import FetchAsk


def test_alone_what_is_durable_here_is_committed() -> None:
    leader = Leader(1, {1}, epoch=3, epoch_start_offset=10)
    assert not leader.on_durable(1, 10), "its own first record is still missing"
    assert leader.on_durable(1, 11)
    assert leader.high_watermark == 11
    assert not leader.on_durable(1, 11)


def test_records_of_earlier_epochs_wait_for_one_of_this_epoch() -> None:
    leader = Leader(1, {1, 2, 3}, epoch=3, epoch_start_offset=10)
    leader.on_durable(1, 12)
    assert not leader.on_durable(2, 10), "a majority has the old records, none of this epoch"
    assert leader.on_durable(3, 11)
    assert leader.high_watermark == 11


def test_observers_have_no_vote_and_late_answers_say_nothing() -> None:
    leader = Leader(1, {1, 2}, epoch=1, epoch_start_offset=0)
    leader.on_durable(1, 5)
    assert not leader.on_durable(9, 5)
    assert leader.on_durable(2, 4)
    assert not leader.on_durable(2, 3)
    assert leader.high_watermark == 4


def fetch(leader: Leader, voter: int, offset: int) -> bool:
    return leader.on_fetch(FetchAsk(voter, leader.epoch, offset, 1), 9, 0, votes=True)


@pytest.mark.parametrize("is_other_log", [False, True])
def test_what_a_lost_disk_held_commits_nothing_any_more(is_other_log: bool) -> None:
    """1. Voter 2 fetches from 9, so it holds 9 records. 2. It loses its disk, and fetches from 0.
    3. The leader's own disk, which is slow, has the 9 records too: no other one has."""
    leader = Leader(1, {1, 2, 3}, epoch=1, epoch_start_offset=0)
    leader.on_durable(1, 5)
    assert fetch(leader, 2, 9)
    assert leader.high_watermark == 5
    if is_other_log:
        leader.on_other_log(2, 0)
    else:
        assert not fetch(leader, 2, 0)
    assert not leader.on_durable(1, 9)
    assert leader.high_watermark == 5, "it does not fall"
    assert fetch(leader, 2, 7)
    assert leader.high_watermark == 7


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=40),
)
def test_the_high_watermark_is_what_a_majority_holds_and_never_falls(
    voters: int, events: list[tuple[int, int]]
) -> None:
    leader = Leader(0, range(voters), epoch=1, epoch_start_offset=3)
    ends = dict.fromkeys(range(voters), 0)
    for voter, end in events:
        before = leader.high_watermark
        news = leader.on_durable(voter, end)
        if voter in ends:
            ends[voter] = max(ends[voter], end)
        held = max(
            offset
            for offset in range(31)
            if sum(each >= offset for each in ends.values()) > voters // 2
        )
        assert leader.high_watermark == (held if held > 3 else None)
        assert news == (leader.high_watermark != before)
