"""Kafka's own classes still answer what is kept of them."""

from __future__ import annotations

import pytest

from tests.connect.kafka import kept
from tests.connect.kafka.comparison import same
from tests.connect.kafka.questions import SUITES
from tests.connect.kafka.renew import answers_of
from tests.peers.apache_kafka import fetch_or_skip


@pytest.mark.real
@pytest.mark.parametrize("suite", SUITES)
def test_kafka_still_answers_as_it_did(suite: str) -> None:
    asked = SUITES[suite]()
    told = answers_of(fetch_or_skip(), asked)
    answers = kept.read(suite, asked)

    changed = [
        question
        for question, now in zip(asked, told, strict=True)
        if not same(question, now, answers[kept.name_of(question)])
    ]

    assert changed == []
