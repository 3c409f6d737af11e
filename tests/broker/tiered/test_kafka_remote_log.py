"""Records, states, partitions and look-ups of remote segments are Apache Kafka's."""

from __future__ import annotations

import pytest

from tests.broker.tiered.kafka_remote_log import answer, ask_kafka, kept, random_lines
from tests.peers.apache_kafka import fetch_or_skip


def differences(line: str, said: str) -> list[tuple[str, str, str]]:
    """The steps that are answered in another way, with both answers."""
    kind, _, rest = line.partition(":")
    answered = list(zip(rest.split(";"), answer(line).split(";"), said.split(";"), strict=True))
    if kind == "overlaps":
        answered = [each for each in answered if not each[0].startswith("find") or each[1] == "-"]
    return [each for each in answered if each[1] != each[2]]


@pytest.mark.parametrize("kind", ["states", "record", "snapshot", "partition", "cache", "overlaps"])
def test_we_answer_as_kafka_did(kind: str) -> None:
    asked = [(line, said) for line, said in kept() if line.startswith(kind)]
    assert asked
    for line, said in asked:
        assert not differences(line, said)


def test_the_kept_answers_have_seen_every_kind_of_record() -> None:
    answers = " ".join(said for _, said in kept())
    for kind in ("segment", "update", "deletion", "snapshot", "none", "false", "-"):
        assert f"{kind} " in answers or f"{kind};" in answers, kind


@pytest.mark.deep
@pytest.mark.real
def test_we_answer_as_kafka_does() -> None:
    lines = random_lines(range(5000, 5060))
    for line, said in zip(lines, ask_kafka(fetch_or_skip(), lines), strict=True):
        assert not differences(line, said)
