"""`python -m tests.connect.kafka.renew` asks Kafka's own classes again and keeps their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.connect.kafka import kept
from tests.connect.kafka.questions import SUITES
from tests.peers.apache_kafka import ApacheKafka, fetch

SOURCE = Path(__file__).parent / "ConnectAnswers.java"


def answers_of(kafka: ApacheKafka, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Kafka answers to each question."""
    lines = [json.dumps(question) for question in asked]
    return [json.loads(line) for line in kafka.run_source(SOURCE, lines)]


def renew() -> None:
    kafka = fetch()
    for suite, questions in SUITES.items():
        asked = questions()
        kept.write(suite, asked, answers_of(kafka, asked))
        print(f"{suite}: {len(asked)} answers")


if __name__ == "__main__":
    renew()
