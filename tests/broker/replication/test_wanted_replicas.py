"""The replicas that wait for their logs: which one is next, and what counts once it is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.replication.wanted_replicas import (
    AT_ONCE,
    ROUND,
    Name,
    WantedReplica,
    WantedReplicas,
)
from tests.broker.replication.hosting import CONFIG, FLUSHED, leadership, topic_id_of

T = topic_id_of("t")


def wanted(topic: str = "t", index: int = 0, epoch: int = 0, **more: object) -> WantedReplica:
    return WantedReplica(leadership(topic, index, epoch, **more), CONFIG, is_led=True)


def waiting(*replicas: WantedReplica) -> WantedReplicas:
    found = WantedReplicas()
    for each in replicas:
        found.want(each)
    return found


def many(topic: str, count: int) -> Iterable[WantedReplica]:
    return (wanted(topic, index) for index in range(count))


def names(round_: Iterable[WantedReplica]) -> list[Name]:
    return [each.name for each in round_]


def test_a_few_logs_of_a_turn_are_made_at_once() -> None:
    here = WantedReplicas()
    for _ in range(2):
        assert [here.may_be_made_at_once() for _ in range(AT_ONCE + 2)].count(True) == AT_ONCE
        here.on_turn()


def test_no_log_is_made_at_once_while_another_waits_or_is_under_way() -> None:
    here = waiting(wanted())
    assert not here.may_be_made_at_once()
    here.begin_round()
    assert not here.may_be_made_at_once()
    here.end(("t", 0), T)
    assert here.may_be_made_at_once()


def test_a_round_takes_the_partitions_of_a_topic_in_order() -> None:
    here = waiting(*many("t", ROUND + 5))
    assert names(here.begin_round()) == [("t", index) for index in range(ROUND)]


def test_a_small_topic_does_not_wait_for_all_of_a_large_one() -> None:
    here = waiting(*many("large", 1000), *many("small", 3))
    assert names(here.begin_round())[:6] == [
        (topic, index) for index in range(3) for topic in ("large", "small")
    ]


def test_the_newest_metadata_counts_when_the_log_is_made() -> None:
    here = waiting(wanted())
    here.begin_round()
    newer = replace(wanted(epoch=7, is_new=False), is_led=False)
    here.want(newer)
    here.configure(("t", 0), FLUSHED)
    found = here.end(("t", 0), T)
    assert found is not None
    assert found.leadership.leader_epoch == 7
    assert found.leadership.is_new, "no log of it can exist, whatever has changed"
    assert (found.config, found.is_led) == (FLUSHED, False)
    assert not here


def test_a_replica_that_is_withdrawn_before_its_round_is_not_made() -> None:
    here = waiting(wanted(index=0), wanted(index=1))
    here.withdraw(("t", 0))
    here.withdraw(("t", 7))
    assert ("t", 0) not in here
    assert names(here.begin_round()) == [("t", 1)]


def test_a_replica_that_is_withdrawn_in_its_round_is_not_served() -> None:
    here = waiting(wanted())
    here.begin_round()
    here.withdraw(("t", 0))
    assert ("t", 0) in here
    assert here.end(("t", 0), T) is None
    assert not here


def test_a_name_that_is_used_again_waits_for_the_first_log() -> None:
    here = waiting(wanted())
    here.begin_round()
    here.withdraw(("t", 0))
    here.want(wanted(topic_id=topic_id_of("new")))
    assert here.end(("t", 0), T) is None
    assert [each.leadership.topic_id for each in here.begin_round()] == [topic_id_of("new")]


def test_a_topic_is_being_made_until_its_last_log_is_there() -> None:
    here = waiting(wanted())
    assert here.has_any_of("t")
    here.begin_round()
    here.withdraw(("t", 0))
    assert here.has_any_of("t")
    here.end(("t", 0), T)
    assert not here.has_any_of("t")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), unique=True))
def test_each_log_is_made_once_and_none_is_forgotten(asked: list[Name]) -> None:
    here = waiting(*(wanted(*name) for name in asked))
    made: list[Name] = []
    while here:
        round_ = names(here.begin_round())
        assert 0 < len(round_) <= ROUND
        for name in round_:
            assert here.end(name, topic_id_of(name[0])) is not None
        made += round_
    assert sorted(made) == sorted(asked)
    for topic in "abc":
        assert [name for name in made if name[0] == topic] == [
            name for name in asked if name[0] == topic
        ]
