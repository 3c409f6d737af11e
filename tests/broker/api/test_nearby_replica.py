"""The replica that a consumer reads from (KIP-392)."""

from __future__ import annotations

from moldau.broker.api.fetch_reader import nearby_replica

RACKS = {1: "a", 2: "b", 3: "b", 4: None}
BOTH = {2: (10, 100), 3: (10, 200)}


def test_it_is_the_most_caught_up_in_the_rack() -> None:
    assert nearby_replica("b", 1, RACKS, BOTH) == 3
    assert nearby_replica("b", 1, RACKS, {2: (11, 100), 3: (10, 200)}) == 2
    assert nearby_replica("b", 1, RACKS, {2: (10, 100), 3: (10, 100)}) == 2


def test_it_is_the_leader_where_that_is_as_near_or_nothing_is_nearer() -> None:
    assert nearby_replica("a", 1, RACKS, BOTH) is None
    assert nearby_replica("b", 2, RACKS, {1: (10, 1), 3: (10, 1)}) is None
    assert nearby_replica("c", 1, RACKS, BOTH) is None
    assert nearby_replica("", 1, RACKS, BOTH) is None
    assert nearby_replica("b", 1, RACKS, {}) is None
    assert nearby_replica("b", 1, {1: "a"}, BOTH) is None, "fenced brokers are not reached"
