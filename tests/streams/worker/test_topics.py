"""How many partitions the topics of an app have, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import RepartitionTopic
from moldau.streams.worker.topics import (
    BadTopics,
    InternalTopic,
    check_existing,
    check_sources,
    internal_topics,
    partition_counts,
)
from tests.streams.worker.counting import COUNTS, word_count


def program(index: int, *inputs: str, out: str = "out", stores: bool = False) -> Program:
    return Program(index, "app", (), inputs, (out,), (COUNTS,) if stores else ())


def joined(left: str, right: str) -> Program:
    return replace(program(9, left, right, stores=True), copartitioned=(frozenset({left, right}),))


def test_a_repartition_topic_is_as_wide_as_the_widest_input() -> None:
    plan = Plan("app", (program(0, "a", "b", out="r"), program(1, "r")), (RepartitionTopic("r"),))

    assert partition_counts(plan, {"a": 2, "b": 5}) == {"a": 2, "b": 5, "r": 5}


def test_widths_go_along_a_chain_of_repartitions() -> None:
    chain = (program(0, "r2"), program(1, "r1", out="r2"), program(2, "a", out="r1"))
    plan = Plan("app", chain, (RepartitionTopic("r2"), RepartitionTopic("r1")))

    assert partition_counts(plan, {"a": 3}) == {"a": 3, "r1": 3, "r2": 3}


def test_a_repartition_topic_follows_what_it_is_joined_with() -> None:
    plan = Plan("app", (program(0, "a", out="r"), joined("r", "b")), (RepartitionTopic("r"),))

    assert partition_counts(plan, {"a": 2, "b": 7})["r"] == 7


def test_two_repartition_topics_that_are_joined_are_as_wide_as_the_wider() -> None:
    programs = (program(0, "a", out="r"), program(1, "b", out="s"), joined("r", "s"))
    plan = Plan("app", programs, (RepartitionTopic("r"), RepartitionTopic("s")))

    assert partition_counts(plan, {"a": 2, "b": 7}) == {"a": 2, "b": 7, "r": 7, "s": 7}


@pytest.mark.parametrize("given", [None, 3])
def test_inputs_of_a_join_must_agree(given: int | None) -> None:
    right = "b" if given is None else "r"
    topics = () if given is None else (RepartitionTopic("r", given),)
    plan = Plan("app", (program(0, "b", out="r"), joined("a", right)), topics)

    with pytest.raises(BadTopics, match=r"a has 2, . has 3; give them the same number"):
        partition_counts(plan, {"a": 2, "b": 3})


def test_state_over_inputs_of_different_widths_is_refused() -> None:
    plan = Plan("app", (program(0, "a", "b", stores=True),))

    with pytest.raises(BadTopics, match="keeps state over topics with different numbers"):
        partition_counts(plan, {"a": 2, "b": 3})


def test_missing_inputs_are_named_with_what_to_do() -> None:
    with pytest.raises(BadTopics, match=r"do not exist: lines; .* moldau topic create lines"):
        check_sources(word_count("app"), {})


def test_an_internal_topic_of_another_width_is_told() -> None:
    with pytest.raises(BadTopics, match="has 4 partitions and the app now needs 2"):
        check_existing(InternalTopic("app-counts-changelog", 2), 4)


def test_changelogs_have_a_partition_for_each_task_and_are_compacted() -> None:
    plan = word_count("app")
    counts = partition_counts(plan, {"lines": 3})

    [words, changelog] = internal_topics(plan, counts)

    assert (words.name, words.partitions) == ("app-words-repartition", 3)
    assert changelog == InternalTopic("app-counts-changelog", 3, {"cleanup.policy": "compact"})
