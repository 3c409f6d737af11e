"""Our cleaner leaves of a log what Apache Kafka's leaves of it."""

from __future__ import annotations

import pytest

from tests.broker.log.kafka_cleaner import answer, ask_kafka, kept, random_line, without_ends
from tests.peers.apache_kafka import fetch_or_skip


def test_we_clean_as_kafka_did() -> None:
    assert len(kept()) == 8
    for line, said in kept():
        assert without_ends(answer(line), said) == said, line


def test_the_kept_rounds_have_seen_all_that_can_happen() -> None:
    said = "|".join(said for _, said in kept())
    batches = [batch.split(" ") for batch in said.replace(";", "|").split("|")]
    facts = [words for words in batches if len(words) >= 10]
    assert any(words[0] == "aborted" for words in batches)
    assert any(words[8] == "true" for words in facts), "no marker was kept"
    assert any(words[9] != "-1" for words in facts), "no delete horizon was set"
    assert any(len(words) == 10 for words in facts), "no empty batch was kept"
    assert any(words[0] == "lz4" for words in facts)
    assert any(words[-1].endswith("null") for words in facts), "no tombstone was kept"


@pytest.mark.real
def test_we_clean_as_kafka_does() -> None:
    lines = [random_line(seed) for seed in range(7000, 7030)]
    for line, said in zip(lines, ask_kafka(fetch_or_skip(), lines), strict=True):
        assert without_ends(answer(line), said) == said, line
