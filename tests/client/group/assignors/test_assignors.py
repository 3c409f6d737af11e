"""What every assignor owes: each partition to one member that wants it, even, sticky, the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import TopicPartition
from moldau.client.group.assignors import Assignor, RangeAssignor, Subscription, load_assignors
from moldau.client.group.assignors.installed import OURS
from moldau.errors import ConfigError
from moldau.plugins import Plugins
from tests.client.group.assignors.cases import story
from tests.plugins.entry_points import point

NOWHERE: frozenset[str] = frozenset()


def topics_of(**partitions: int) -> dict[str, list[frozenset[str]]]:
    return {name: [NOWHERE] * count for name, count in partitions.items()}


@given(st.integers(0, 2**32))
def test_every_partition_has_one_reader_that_wants_it(seed: int) -> None:
    for case in story(seed):
        shares = case.ours()["shares"]
        given_out = Counter(tuple(each) for share in shares.values() for each in share)
        assert set(given_out.values()) <= {1}
        for member in case.members:
            assert {topic for topic, _ in shares[member.id]} <= set(member.subscription.topics)
        wanted = {topic for each in case.members for topic in each.subscription.topics}
        every = {(topic, n) for topic in wanted for n in range(len(case.topics[topic]))}
        missing = every - given_out.keys()
        if case.assignor != "cooperative-sticky":
            assert not missing
        # What a cooperative one leaves out, somebody has to give up first.
        owned = {each for told in case.members for each in told.subscription.owned}
        assert missing <= owned


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(st.integers(0, 60), st.integers(1, 12), st.integers(0, 11))
def test_a_member_that_leaves_moves_only_what_it_had(
    name: str, count: int, all_: int, out: int
) -> None:
    topics = topics_of(t=count)
    names = [f"m{n}" for n in range(all_)]
    (leader,) = load_assignors([name])
    first = leader.assign(topics, {each: Subscription(("t",)) for each in names})
    assert max(map(len, first.values())) - min(map(len, first.values())) <= 1
    left = {each: share for each, share in first.items() if each != f"m{out}"}
    if not left:
        return
    again = {each: _again(name, share) for each, share in left.items()}
    second = leader.assign(topics, again)
    assert max(map(len, second.values())) - min(map(len, second.values())) <= 1
    for each, share in left.items():
        assert set(share) <= set(second[each]), "what stays with a member stays with it"


def _again(name: str, share: list[TopicPartition]) -> Subscription:
    (mine,) = load_assignors([name])
    mine.on_assignment(share, 1)
    told = Subscription(("t",), user_data=mine.user_data(frozenset("t")), generation=1)
    return replace(told, owned=tuple(share)) if name == "cooperative-sticky" else told


def test_a_cooperative_share_waits_until_it_is_given_up() -> None:
    (leader,) = load_assignors(["cooperative-sticky"])
    had = tuple(TopicPartition("t", n) for n in range(4))
    members = {
        "old": Subscription(("t",), owned=had, generation=3),
        "new": Subscription(("t",)),
    }
    shares = leader.assign(topics_of(t=4), members)
    assert (len(shares["old"]), shares["new"]) == (2, [])
    members["old"] = replace(members["old"], owned=tuple(shares["old"]), generation=4)
    assert sorted(map(len, leader.assign(topics_of(t=4), members).values())) == [2, 2]


class Everything(RangeAssignor):
    """Somebody's own."""

    @property
    def name(self) -> str:
        return "everything"


def test_names_of_java_and_of_plugins() -> None:
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    plugins = Plugins([point("assignors", "mine", f"{__name__}:Everything")])
    found: list[Assignor] = load_assignors([java, "mine"], plugins)
    assert [each.name for each in found] == ["cooperative-sticky", "everything"]
    with pytest.raises(ConfigError, match="no such plugin") as caught:
        load_assignors(["rang"], plugins)
    assert caught.value.context["setting"] == "partition.assignment.strategy"
    with pytest.raises(ConfigError, match="one name"):
        load_assignors(["range", "range"], plugins)
    assert {make().name for make in OURS.values()} == set(OURS)
