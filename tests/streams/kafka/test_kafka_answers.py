"""Kafka Streams still answers what is kept of it, for a sample of the scripts."""

from __future__ import annotations

import pytest

from tests.peers.apache_kafka import PeerMissing, fetch_streams_driver
from tests.streams.kafka import kept
from tests.streams.kafka.answering import theirs
from tests.streams.kafka.generated import FAMILIES, scripts
from tests.suites import may_use_java


@pytest.mark.real
def test_kafka_still_answers_as_it_did() -> None:
    may_use_java()
    try:
        kafka = fetch_streams_driver()
    except PeerMissing as missing:
        pytest.skip(f"Kafka Streams cannot be had here: {missing}")
    chosen = {f"{name} 1" for name in list(FAMILIES)[::3]}
    asked = [script for script in scripts() if script.name in chosen]
    answers = kept.generated(asked)
    sample = {script: answers[script.name] for script in asked}
    sample |= {each.script: each.theirs for each in kept.written("windows")[:4]}

    told = dict(zip(sample, theirs(kafka, list(sample)), strict=True))

    assert told == sample
