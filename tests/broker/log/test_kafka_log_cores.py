"""Producer state, transaction index and leader epochs do what Apache Kafka's do, byte for byte."""

from __future__ import annotations

import pytest

from tests.broker.log.kafka_log_cores import answer, ask_kafka, kept, random_lines
from tests.peers.apache_kafka import fetch_or_skip


@pytest.mark.parametrize("kind", ["producers", "index", "epochs", "snapshot"])
def test_we_answer_as_kafka_did(kind: str) -> None:
    asked = [(line, said) for line, said in kept() if line.startswith(kind)]
    assert len(asked) == 8
    for line, said in asked:
        assert answer(line) == said, line


def test_the_kept_answers_have_seen_every_outcome() -> None:
    answers = " ".join(said for line, said in kept())
    for outcome in (
        "duplicate",
        "aborted",
        "INVALID_PRODUCER_EPOCH",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_TXN_STATE",
        "TRANSACTION_COORDINATOR_FENCED",
        "corrupt",
        "true",
    ):
        assert outcome in answers, outcome


@pytest.mark.real
def test_we_answer_as_kafka_does() -> None:
    lines = random_lines(range(5000, 5040), 60)
    answers = ask_kafka(fetch_or_skip(), lines)
    for line, said in zip(lines, answers, strict=True):
        assert answer(line) == said, line
