"""Both assignors: every partition of every wanted topic to one member that wants it, and more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.consumer.assignors import ASSIGNORS, MemberSpec
from moldau.broker.coordinator.group.consumer.partitions import Partitions, count
from moldau.ids import Uuid


def topic(number: int) -> Uuid:
    return number.to_bytes(16, "big")


def spec(
    *topics: Uuid, assigned: Mapping[Uuid, set[int]] | None = None, instance: str | None = None
) -> MemberSpec:
    held = {each: frozenset(partitions) for each, partitions in (assigned or {}).items()}
    return MemberSpec(frozenset(topics), held, instance)


T1, T2, T3 = topic(1), topic(2), topic(3)


def again(
    members: Mapping[str, MemberSpec], result: Mapping[str, Partitions]
) -> dict[str, MemberSpec]:
    """The members as they are after that assignment."""
    return {
        member_id: MemberSpec(each.topics, result.get(member_id, {}), each.instance_id)
        for member_id, each in members.items()
    }


def check_whole(
    members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int], result: Mapping[str, Partitions]
) -> None:
    """Every partition of every wanted topic once, to who wants it, and nothing else."""
    assert result.keys() == members.keys()
    given_to = Counter(
        (topic_id, partition)
        for partitions in result.values()
        for topic_id, held in partitions.items()
        for partition in held
    )
    wanted = {topic_id for each in members.values() for topic_id in each.topics}
    assert given_to.keys() == {(each, index) for each in wanted for index in range(counts[each])}
    assert set(given_to.values()) <= {1}
    for member_id, partitions in result.items():
        assert partitions.keys() <= members[member_id].topics
        assert all(partitions.values()), "a topic without partitions is left out"


@st.composite
def groups(draw: st.DrawFn, *, alike: bool) -> tuple[dict[str, MemberSpec], dict[Uuid, int]]:
    """Members, with targets of an earlier life that need not make sense any more."""
    topics = [topic(number) for number in range(1, draw(st.integers(1, 5)) + 1)]
    counts = {each: draw(st.integers(1, 12)) for each in topics}
    names = [f"m{number}" for number in range(draw(st.integers(1, 7)))]
    wishes = st.frozensets(st.sampled_from(topics))
    same = draw(wishes)
    held = st.dictionaries(
        st.sampled_from([*topics, topic(99)]), st.frozensets(st.integers(0, 14), min_size=1)
    )
    members = {
        name: MemberSpec(
            same if alike else draw(wishes),
            draw(held),
            draw(st.sampled_from([None, f"i-{name}"])),
        )
        for name in names
    }
    return members, counts


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=st.one_of(groups(alike=True), groups(alike=False)))
def test_each_partition_goes_to_one_member_that_wants_it(
    name: str, group: tuple[dict[str, MemberSpec], dict[Uuid, int]]
) -> None:
    members, counts = group
    check_whole(members, counts, ASSIGNORS[name](members, counts))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=st.one_of(groups(alike=True), groups(alike=False)))
def test_what_was_assigned_stays_when_nothing_changes(
    name: str, group: tuple[dict[str, MemberSpec], dict[Uuid, int]]
) -> None:
    members, counts = group
    first = ASSIGNORS[name](members, counts)
    assert ASSIGNORS[name](again(members, first), counts) == first


@given(group=groups(alike=True))
def test_uniform_gives_everybody_the_same_number_give_or_take_one(
    group: tuple[dict[str, MemberSpec], dict[Uuid, int]],
) -> None:
    members, counts = group
    sizes = [count(each) for each in ASSIGNORS["uniform"](members, counts).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups(alike=False))
def test_uniform_leaves_no_move_that_would_make_two_members_more_equal(
    group: tuple[dict[str, MemberSpec], dict[Uuid, int]],
) -> None:
    members, counts = group
    result = ASSIGNORS["uniform"](members, counts)
    size = {member_id: count(partitions) for member_id, partitions in result.items()}
    for giver, partitions in result.items():
        for topic_id in partitions:
            for taker, each in members.items():
                if topic_id in each.topics:
                    assert size[giver] - size[taker] <= 1


@given(group=groups(alike=True), data=st.data())
def test_uniform_moves_only_what_the_newcomer_needs(
    group: tuple[dict[str, MemberSpec], dict[Uuid, int]], data: st.DataObject
) -> None:
    members, counts = group
    settled = again(members, ASSIGNORS["uniform"](members, counts))
    topics = next(iter(members.values())).topics
    result = ASSIGNORS["uniform"]({**settled, "new": MemberSpec(topics)}, counts)
    moved = sum(
        count(settled[member_id].assigned)
        - sum(len(held & result[member_id].get(each, frozenset())) for each, held in had.items())
        for member_id, had in ((name, each.assigned) for name, each in settled.items())
    )
    assert moved == count(result["new"])


def test_uniform_lets_the_first_member_keep_the_lowest_partitions() -> None:
    members = {"a": spec(T1, assigned={T1: {0, 1, 2, 3, 4, 5}}), "b": spec(T1)}
    result = ASSIGNORS["uniform"](members, {T1: 6})
    assert result == {"a": {T1: {0, 1, 2}}, "b": {T1: {3, 4, 5}}}


def test_uniform_spreads_the_partitions_of_a_topic() -> None:
    members = {"a": spec(T1, T2), "b": spec(T1, T2)}
    result = ASSIGNORS["uniform"](members, {T1: 4, T2: 4})
    assert {len(partitions[T1]) for partitions in result.values()} == {2}


def test_uniform_gives_less_of_the_common_topic_to_who_has_one_alone() -> None:
    members = {"a": spec(T1), "b": spec(T1, T2), "c": spec(T1, T2, T3)}
    result = ASSIGNORS["uniform"](members, {T1: 4, T2: 4, T3: 4})
    assert [count(result[each]) for each in "abc"] == [4, 4, 4]


def test_uniform_evens_out_what_an_earlier_target_left_uneven() -> None:
    held = {T1: {0, 1, 2, 3, 4, 5}}
    members = {"a": spec(T1, T2, assigned=held), "b": spec(T1), "c": spec(T1, T2)}
    result = ASSIGNORS["uniform"](members, {T1: 6, T2: 3})
    assert [count(result[each]) for each in "abc"] == [3, 3, 3]
    assert result["a"].keys() == {T1}


def test_range_gives_the_same_partitions_of_topics_of_the_same_size() -> None:
    members = {"b": spec(T1, T2), "a": spec(T1, T2), "c": spec(T1, T2, instance="0")}
    result = ASSIGNORS["range"](members, {T1: 7, T2: 7})
    assert result == {
        "c": {T1: {0, 1, 2}, T2: {0, 1, 2}},
        "a": {T1: {3, 4}, T2: {3, 4}},
        "b": {T1: {5, 6}, T2: {5, 6}},
    }


def test_range_counts_only_those_who_want_the_topic() -> None:
    members = {"a": spec(T1), "b": spec(T1, T2), "c": spec(T2)}
    result = ASSIGNORS["range"](members, {T1: 2, T2: 1})
    assert result == {"a": {T1: {0}}, "b": {T1: {1}, T2: {0}}, "c": {}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_gets_nothing_from_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
    assert ASSIGNORS[name]({"a": spec()}, {}) == {"a": {}}
