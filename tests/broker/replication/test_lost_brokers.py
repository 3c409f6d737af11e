"""Brokers whose connection has just ended, and brokers fenced a moment ago."""

from __future__ import annotations

from moldau.broker.replication.lost_brokers import FENCED_MS, LOST_MS, LostBrokers


def test_a_broker_is_lost_until_it_is_back_and_no_longer_than_a_second() -> None:
    lost = LostBrokers()
    assert not lost.are_any_lost((1, 2), 0)
    lost.on_lost(2, 100)
    assert lost.are_any_lost((1, 2), 100 + LOST_MS - 1)
    assert not lost.are_any_lost((1, 3), 100)
    assert not lost.are_any_lost((1, 2), 100 + LOST_MS)
    assert lost.on_connected(2)
    assert not lost.on_connected(2)
    assert not lost.are_any_lost((1, 2), 100)


def test_a_fenced_broker_is_not_lost_any_more_and_is_told_for_a_moment() -> None:
    lost = LostBrokers()
    lost.on_lost(2, 100)
    lost.on_fenced(2, 150)
    assert not lost.are_any_lost((2,), 150)
    lost.on_fenced(3, 250)
    assert lost.lately_fenced(150 + FENCED_MS - 1) == {2, 3}
    assert lost.lately_fenced(150 + FENCED_MS) == {3}
    assert lost.lately_fenced(250 + FENCED_MS) == frozenset()
