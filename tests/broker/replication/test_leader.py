"""ISR and high watermark: what all who may lead next hold, and what acks ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.replication.leader import Leader
from moldau.errors.codes import ErrorCode, KafkaError


def moves(leader: Leader, event: Callable[..., None], *given: Any) -> bool:
    """Whether the event moves the high watermark."""
    before = leader.high_watermark
    event(*given)
    assert leader.ready().high_watermark == leader.high_watermark
    return leader.high_watermark != before


def changes(leader: Leader, event: Callable[..., None], *given: Any) -> bool:
    """Whether the event changes something that requests wait for."""
    before = leader.high_watermark
    event(*given)
    ready = leader.ready()
    assert not leader.ready().is_changed, "it is told once"
    return ready.is_changed or ready.high_watermark != before


def test_alone_the_high_watermark_is_the_end() -> None:
    leader = Leader(1, [1], 1, 0)
    assert moves(leader, leader.on_end, 1, 5)
    assert not moves(leader, leader.on_end, 1, 5)
    assert leader.high_watermark == 5
    assert leader.is_acknowledged(4, 1, 1)
    assert leader.is_acknowledged(4, -1, 1)
    assert not leader.is_acknowledged(5, 1, 1)
    assert not leader.is_acknowledged(5, -1, 1)


def test_it_waits_for_the_slowest_of_those_in_sync() -> None:
    leader = Leader(1, [1, 2, 3], 3, 0)
    assert not moves(leader, leader.on_end, 1, 10)
    assert not moves(leader, leader.on_end, 2, 7)
    assert moves(leader, leader.on_end, 3, 4)
    assert leader.high_watermark == 4
    assert leader.is_acknowledged(9, 1, 1), "acks=1 asks the leader only"
    assert leader.is_acknowledged(3, -1, 3)
    assert not leader.is_acknowledged(4, -1, 3)
    assert moves(leader, leader.on_end, 3, 8)
    assert leader.high_watermark == 7


def test_who_is_not_in_sync_does_not_count() -> None:
    leader = Leader(1, [1, 2], 3, 0)
    leader.on_end(3, 1)
    leader.on_end(1, 10)
    assert moves(leader, leader.on_end, 2, 10)
    assert leader.high_watermark == 10


def test_too_few_in_sync_refuse_only_who_asks_for_all() -> None:
    leader = Leader(1, [1], 3, 0)
    leader.check_acks(1, 2)
    leader.check_acks(0, 2)
    with pytest.raises(KafkaError) as error:
        leader.check_acks(-1, 2)
    assert error.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.on_end(1, 5)
    assert leader.is_acknowledged(4, 1, 2)
    assert not leader.is_acknowledged(5, -1, 2)
    with pytest.raises(KafkaError) as error:
        leader.is_acknowledged(4, -1, 2)
    assert error.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_more_than_there_are_replicas_cannot_be_asked_for() -> None:
    leader = Leader(1, [1], 1, 0)
    leader.check_acks(-1, 3)
    leader.on_end(1, 1)
    assert leader.is_acknowledged(0, -1, 3)


@given(
    st.sets(st.integers(2, 4)),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=40),
)
def test_it_never_goes_back_and_never_passes_one_who_may_lead(
    others: set[int], ends: list[tuple[int, int]]
) -> None:
    isr = {1, *others}
    leader = Leader(1, isr, 4, 0)
    known = dict.fromkeys(range(1, 5), 0)
    before = 0
    for replica_id, offset in ends:
        known[replica_id] = max(known[replica_id], offset)
        leader.on_end(replica_id, known[replica_id])
        assert leader.high_watermark >= before
        assert leader.high_watermark == min(known[each] for each in isr)
        before = leader.high_watermark


def fetched(leader: Leader, replica_id: int, offset: int, now_ms: int = 0) -> bool:
    """A follower fetches; the leader's log ends where it said last."""
    return moves(leader, leader.on_fetch, replica_id, offset, leader.end_offset, now_ms, 7)


def test_a_proposed_member_already_holds_the_high_watermark_back() -> None:
    leader = Leader(1, [1, 2], 3, 0)
    leader.on_end(1, 10)
    fetched(leader, 2, 6)
    fetched(leader, 3, 6)
    assert leader.may_join(3)
    leader.propose({1, 2, 3})
    assert not leader.may_join(3), "it is proposed already"
    assert not fetched(leader, 2, 10)
    assert leader.high_watermark == 6
    assert leader.isr == {1, 2}, "acks=all counts those that are confirmed"
    assert changes(leader, leader.on_isr, {1, 2, 3}, 3, 5)
    assert fetched(leader, 3, 9)
    assert leader.high_watermark == 9


def test_a_member_that_shall_leave_holds_it_back_until_the_controller_has_confirmed() -> None:
    leader = Leader(1, [1, 2, 3], 3, 0)
    leader.on_end(1, 10)
    fetched(leader, 2, 10)
    fetched(leader, 3, 4)
    leader.propose({1, 2})
    assert leader.high_watermark == 4
    assert not moves(leader, leader.withdraw), "the controller may refuse"
    assert leader.high_watermark == 4
    leader.propose({1, 2})
    assert changes(leader, leader.on_isr, {1, 2}, 3, 1)
    assert leader.high_watermark == 10


def test_an_answer_that_comes_after_a_later_change_is_none() -> None:
    leader = Leader(1, [1, 2, 3], 3, 0)
    assert changes(leader, leader.on_isr, {1, 2}, 3, 4)
    assert not changes(leader, leader.on_isr, {1, 2, 3}, 3, 4)
    assert not changes(leader, leader.on_isr, {1, 2, 3}, 3, 3)
    assert leader.isr == {1, 2}


def test_with_fewer_in_sync_than_there_must_be_nothing_is_committed() -> None:
    leader = Leader(1, [1, 2], 3, 0)
    leader.require(2)
    leader.on_end(1, 10)
    assert fetched(leader, 2, 5)
    leader.on_isr({1}, 3, 1)
    assert not moves(leader, leader.on_own_end, 20)
    assert leader.high_watermark == 5, "the last one may lose what it has not flushed (KIP-966)"
    leader.on_isr({1, 2}, 3, 2)
    assert fetched(leader, 2, 20)
    assert leader.high_watermark == 20


def test_a_follower_that_has_not_had_all_for_long_lags() -> None:
    leader = Leader(1, [1, 2, 3], 3, 0)
    leader.begin(0, now_ms=0)
    leader.on_end(1, 10)
    fetched(leader, 2, 10, now_ms=100)
    fetched(leader, 3, 5, now_ms=100)
    leader.on_end(1, 20)
    fetched(leader, 2, 10, now_ms=900)
    fetched(leader, 3, 10, now_ms=900)
    assert leader.lagging(20, 1000, 900) == frozenset()
    assert leader.lagging(20, 2000, 900) == {2, 3}
    assert leader.lagging(10, 2000, 900) == frozenset(), "they have all there is"


def test_to_join_takes_what_is_committed_and_all_of_earlier_epochs() -> None:
    leader = Leader(1, [1], 3, high_watermark=4)
    leader.begin(8, now_ms=0)
    leader.on_end(1, 8)
    assert leader.high_watermark == 8
    fetched(leader, 2, 7)
    assert not leader.may_join(2)
    fetched(leader, 2, 8)
    assert leader.may_join(2)
    assert leader.broker_epoch(2) == 7
