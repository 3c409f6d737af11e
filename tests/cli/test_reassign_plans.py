"""Plans of moves: what they say, what is refused, and that they spread evenly with few moves."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from moldau.cli.command import UsageError
from moldau.cli.commands.reassign import throttled_replicas
from moldau.cli.commands.reassign_plan import Brokers, evacuation, parse_plan, plan_text, spread


def test_a_plan_is_that_of_kafkas_tool() -> None:
    text = plan_text({("b", 0): (2, 1), ("a", 1): (3,)})
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":1,"replicas":[3],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[2,1],"log_dirs":["any","any"]}]}'
    )
    assert parse_plan(text, "plan.json") == {("a", 1): (3,), ("b", 0): (2, 1)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "plan.json is not JSON"),
        ("[]", '"version": 1'),
        ('{"version":1}', '"partitions"'),
        ('{"version":1,"partitions":[{"partition":0,"replicas":[1]}]}', 'partitions[0] has no "to'),
        ('{"version":1,"partitions":[{"topic":"t","partition":true,"replicas":[1]}]}', "number"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', '"replicas"'),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "two"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "ids"),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],'
            '"log_dirs":["/a"]}]}',
            "log_dirs",
        ),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
            '{"topic":"t","partition":0,"replicas":[2]}]}',
            "t-0 twice",
        ),
    ],
)
def test_what_is_no_plan_is_told_by_its_place(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=r"plan\.json") as refused:
        parse_plan(text, "plan.json")
    assert told in str(refused.value)


def test_what_is_even_stays() -> None:
    current = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}
    assert spread(current, Brokers(dict.fromkeys((1, 2, 3)))) == current


def test_a_broker_that_is_left_out_gets_rid_of_its_replicas_and_others_stay() -> None:
    current = {("t", 0): (1, 2), ("t", 1): (2, 3), ("t", 2): (3, 1)}
    goal = spread(current, Brokers(dict.fromkeys((1, 2, 4))))
    assert all(3 not in replicas for replicas in goal.values())
    assert sum(len({*goal[at]} - {*current[at]}) for at in goal) == 2


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(
        UsageError, match="t-0 shall have 3 replicas, and there is room on 2 brokers"
    ):
        spread({("t", 0): (1, 2)}, Brokers({1: None, 2: None}), 3)


@pytest.mark.parametrize("seed", range(20))
def test_a_spread_is_even_and_keeps_racks_apart(seed: int) -> None:
    random = Random(seed)
    ids = range(1, random.randrange(3, 8))
    racks = {each: random.choice((None, "a", "b", "c")) for each in ids}
    brokers = Brokers(racks)
    factor = random.randrange(1, len(racks) + 1)
    current = {
        ("t", number): tuple(random.sample(range(1, 9), min(factor, 3))) for number in range(30)
    }
    goal = spread(current, brokers, factor)
    for place, replicas in goal.items():
        assert len({*replicas}) == factor
        assert {*replicas} <= racks.keys()
        stayed = [each for each in current[place] if each in racks]
        before = {brokers.rack_of(each) for each in stayed}
        assert len({brokers.rack_of(each) for each in replicas}) >= min(len(before), factor)
    if not any(racks.values()):
        counts = Counter(each for replicas in goal.values() for each in replicas)
        assert max(counts.values()) - min(counts.values()) <= 1
    assert spread(goal, brokers, factor) == goal


def test_old_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    current = {("t", 0): (1, 2), ("t", 1): (1,), ("same", 0): (1,)}
    goal = {("t", 0): (2, 3), ("t", 1): (4,), ("same", 0): (1,)}
    assert throttled_replicas(current, goal) == {
        "t": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1",
            "follower.replication.throttled.replicas": "0:3,1:4",
        }
    }


def test_a_broker_is_left_by_its_replicas_and_nothing_else_moves() -> None:
    current = {("t", 0): (1, 2), ("t", 1): (3, 1), ("t", 2): (2, 3), ("u", 0): (1,)}
    left = Brokers({2: "a", 3: "b", 4: "b"})
    assert evacuation(current, left, 1) == {
        ("t", 0): (4, 2),
        ("t", 1): (3, 2),
        ("u", 0): (4,),
    }
    with pytest.raises(UsageError, match="reassign plan t --brokers 2 --replicas 1 >"):
        evacuation(current, Brokers({2: None}), 1)
