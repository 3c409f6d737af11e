"""Our engine answers to the scripts as Kafka Streams does, but for the differences on purpose."""

from __future__ import annotations

from functools import cache

import pytest

from tests.streams.kafka import kept
from tests.streams.kafka.answering import FAILED, ours
from tests.streams.kafka.differences import DIFFERENCES, explanation
from tests.streams.kafka.generated import FAMILIES, scripts
from tests.streams.kafka.language import Answer, Script


@cache
def answered() -> dict[str, tuple[Script, Answer, Answer]]:
    """The scripts from seeds, Kafka's answers and ours."""
    asked = scripts()
    theirs = kept.generated(asked)
    return {each.name: (each, theirs[each.name], ours(each)) for each in asked}


def test_kafkas_answers_are_those_to_our_scripts() -> None:
    asked = scripts()

    assert kept.generated(asked).keys() == {script.name for script in asked}


@pytest.mark.parametrize("suite", kept.suites())
def test_a_script_by_hand_gives_what_is_kept(suite: str) -> None:
    found = {each.script.name: ours(each.script) for each in kept.written(suite)}

    assert found == {each.script.name: each.ours for each in kept.written(suite)}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_script_from_a_seed_gives_what_kafka_does(family: str) -> None:
    unexplained = {
        name: (script.topology, theirs, our)
        for name, (script, theirs, our) in answered().items()
        if name.rpartition(" ")[0] == family
        and our != theirs
        and explanation(script, theirs, our) is None
    }

    assert unexplained == {}


def test_every_difference_on_purpose_is_shown_by_a_script() -> None:
    differing = [
        each for suite in kept.suites() for each in kept.written(suite) if each.ours != each.theirs
    ]

    assert {each.difference for each in differing} == DIFFERENCES.keys()


def test_a_script_that_names_a_difference_has_one() -> None:
    named = [
        each
        for suite in kept.suites()
        for each in kept.written(suite)
        if each.difference is not None
    ]

    assert [each.script.name for each in named if each.ours == each.theirs] == []


def test_a_planted_difference_is_found() -> None:
    script = Script("planted", ("table in | filter low | to out",), ("in a 1 @0", "in a 9 @1"))

    answer = ours(script)

    assert answer == [["out a 1 @0"], ["out a null @1"]]
    assert explanation(script, [["out a 1 @0"], []], answer) is None
    assert explanation(script, FAILED, answer) is None


def test_restarts_change_nothing() -> None:
    """But for timers, which begin anew, as Kafka's do."""
    for family in FAMILIES:
        script, _, without = answered()[f"{family} 2"]
        if family != "punctuated":
            assert (family, ours(script, restarts=5)) == (family, without)


@pytest.mark.parametrize("options", [{"cache_bytes": 1_000_000}, {"batch": 1}])
def test_the_cache_and_the_batch_change_nothing(options: dict[str, int]) -> None:
    for family in FAMILIES:
        script, _, without = answered()[f"{family} 0"]

        assert (family, ours(script, **options)) == (family, without)
