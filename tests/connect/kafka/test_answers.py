"""Our transforms, predicates and converters answer as Kafka's own do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect.kafka import kept
from tests.connect.kafka.answering import answer
from tests.connect.kafka.comparison import same
from tests.connect.kafka.differences import DIFFERENCES
from tests.connect.kafka.questions import SUITES

Question = dict[str, Any]


def _differing(suite: str) -> list[tuple[Question, Any, Any]]:
    asked = SUITES[suite]()
    answers = kept.read(suite, asked)
    found = []
    for question in asked:
        theirs, ours = answers[kept.name_of(question)], answer(question)
        if not same(question, theirs, ours):
            found.append((question, theirs, ours))
    return found


@pytest.mark.parametrize("suite", SUITES)
def test_the_kept_answers_are_those_to_our_questions(suite: str) -> None:
    asked = SUITES[suite]()

    assert kept.read(suite, asked).keys() == {kept.name_of(question) for question in asked}


@pytest.mark.parametrize("suite", SUITES)
def test_ours_answers_as_kafka_does(suite: str) -> None:
    unexplained = [
        (question, theirs, ours)
        for question, theirs, ours in _differing(suite)
        if not any(applies(question) for applies in DIFFERENCES.values())
    ]

    assert unexplained == []


def test_every_difference_on_purpose_is_still_one() -> None:
    differing = [question for suite in SUITES for question, _, _ in _differing(suite)]

    shown = {
        reason
        for reason, applies in DIFFERENCES.items()
        if any(applies(question) for question in differing)
    }

    assert shown == DIFFERENCES.keys()


def test_a_planted_difference_is_found() -> None:
    question = {"ask": "regex", "pattern": "a", "text": "a", "replacement": "b"}

    assert same(question, {"matches": True, "replaced": "b"}, answer(question))
    assert not same(question, {"matches": True, "replaced": "c"}, answer(question))
    assert not same(question, {"failed": "no"}, answer(question))
