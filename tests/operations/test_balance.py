"""Plans by load: racks, few moves, how level the brokers are in the end, and the second plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import BadGiven
from moldau.operations.balance import (
    WORTH,
    Brokers,
    Load,
    Place,
    Replicas,
    disk_loads,
    is_level,
    keeps_racks,
    leader_loads,
    plan,
)

IMBALANCE = 0.2


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Brokers, dict[Place, Replicas], dict[Place, Load]]:
    ids = range(1, draw(st.integers(2, 7)) + 1)
    racks = {each: draw(st.sampled_from((None, "a", "b", "c"))) for each in ids}
    replicas: dict[Place, Replicas] = {}
    loads: dict[Place, Load] = {}
    for number in range(draw(st.integers(1, 25))):
        factor = draw(st.integers(1, min(3, len(ids))))
        replicas["t", number] = tuple(draw(st.permutations(list(ids)))[:factor])
        loads["t", number] = Load(draw(st.integers(1, 1_000)), draw(st.integers(1, 50)))
    return Brokers(racks), replicas, loads


def squares(loads: dict[int, int]) -> int:
    return sum(each * each for each in loads.values())


@given(clusters())
def test_a_plan_keeps_racks_and_replicas_and_never_makes_brokers_less_level(
    cluster: tuple[Brokers, dict[Place, Replicas], dict[Place, Load]],
) -> None:
    brokers, current, loads = cluster
    goal = plan(current, loads, brokers, IMBALANCE)
    racks = brokers.racks_of(brokers.racks)
    for place, replicas in goal.items():
        assert len({*replicas}) == len(current[place]), "one replica a broker, as many as before"
        assert brokers.racks_of(replicas) >= brokers.racks_of(current[place])
    after = {**current, **goal}
    for replicas in after.values():
        assert brokers.racks_of(replicas) == min(len(replicas), racks), "as many as there can be"
    if all(brokers.racks_of(each) == min(len(each), racks) for each in current.values()):
        before = squares(disk_loads(current, loads, brokers))
        assert squares(disk_loads(after, loads, brokers)) <= before


@given(clusters())
def test_a_second_plan_is_empty(
    cluster: tuple[Brokers, dict[Place, Replicas], dict[Place, Load]],
) -> None:
    brokers, current, loads = cluster
    after = {**current, **plan(current, loads, brokers, IMBALANCE)}
    assert plan(after, loads, brokers, IMBALANCE) == {}


@given(clusters())
def test_disks_end_level_or_no_move_helps(
    cluster: tuple[Brokers, dict[Place, Replicas], dict[Place, Load]],
) -> None:
    brokers, current, loads = cluster
    after = {**current, **plan(current, loads, brokers, IMBALANCE)}
    disks = disk_loads(after, loads, brokers)
    if is_level(disks, IMBALANCE):
        return
    mean = sum(disks.values()) / len(disks)
    low, high = mean * (1 - IMBALANCE), mean * (1 + IMBALANCE)
    for old in brokers.racks:
        for new in brokers.racks:
            needed = max(disks[old] - high, low - disks[new])
            helping = [
                loads[place].size_bytes
                for place, replicas in after.items()
                if keeps_racks(replicas, old, new, brokers)
                and loads[place].size_bytes < disks[old] - disks[new]
            ]
            assert needed <= 0 or not helping or sum(helping) < WORTH * needed, (old, new)


@given(clusters())
def test_no_move_can_be_left_out(
    cluster: tuple[Brokers, dict[Place, Replicas], dict[Place, Load]],
) -> None:
    brokers, current, loads = cluster
    goal = plan(current, loads, brokers, IMBALANCE)
    after = {**current, **goal}
    disks = disk_loads(after, loads, brokers)
    if not is_level(disks, IMBALANCE):
        return
    for place, replicas in goal.items():
        for new in {*replicas} - {*current[place]}:
            for old in {*current[place]} - {*replicas}:
                if not keeps_racks(replicas, new, old, brokers):
                    continue
                kept = {**disks, new: disks[new] - loads[place].size_bytes}
                kept[old] += loads[place].size_bytes
                if len({*replicas} - {*current[place]}) == 1:
                    assert not is_level(kept, IMBALANCE), (place, old, new)


def test_a_new_broker_gets_its_share_with_as_few_bytes_as_that_takes() -> None:
    current = {("t", number): (1, 2) for number in range(12)}
    loads = {place: Load(100) for place in current}
    brokers = Brokers(dict.fromkeys((1, 2, 3)))
    goal = plan(current, loads, brokers, 0.1)
    after = {**current, **goal}
    assert disk_loads(after, loads, brokers) == {1: 800, 2: 800, 3: 800}
    assert sum(len({*goal[at]} - {*current[at]}) for at in goal) == 8
    assert leader_loads(after, loads, brokers) == {1: 4, 2: 4, 3: 4}


def test_small_partitions_stay_where_a_large_one_is_too_much_for_its_broker() -> None:
    current = {("large", 0): (1,), **{("t", at): (at % 3 + 1,) for at in range(60)}}
    loads = {place: Load(1) for place in current} | {("large", 0): Load(1_000_000)}
    assert plan(current, loads, Brokers(dict.fromkeys((1, 2, 3))), 0.1) == {}

    grown = Brokers(dict.fromkeys((1, 2, 3, 4)))
    more = {**current, ("large", 1): (1,)}
    goal = plan(more, {**loads, ("large", 1): Load(900_000)}, grown, 0.1)
    assert [*goal] == [("large", 0)], "the new broker gets what makes a difference"


def test_what_is_level_within_the_stated_imbalance_stays() -> None:
    current = {("t", 0): (1,), ("t", 1): (2,)}
    loads = {("t", 0): Load(110), ("t", 1): Load(90)}
    assert plan(current, loads, Brokers({1: None, 2: None}), 0.1) == {}


def test_a_replica_on_a_broker_that_is_down_is_refused() -> None:
    with pytest.raises(BadGiven, match="t-0 has a replica on broker 3, which is down"):
        plan({("t", 0): (3, 1)}, {("t", 0): Load(1)}, Brokers({1: None}), 0.1)
