"""Kafka's own generated classes, asked in bulk through `java/KafkaOracle.java`.

Messages that are declared as Kafka 4.4 has them are asked of its jars, the others of 4.3.1's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests import oracle
from tests.peers.apache_kafka import ApacheKafka

SOURCE = Path(__file__).parent / "java" / "KafkaOracle.java"

_PACKAGES = {
    "clients": "org.apache.kafka.common.message",
    "metadata": "org.apache.kafka.common.metadata",
    "group": "org.apache.kafka.coordinator.group.generated",
    "transaction": "org.apache.kafka.coordinator.transaction.generated",
    "share": "org.apache.kafka.coordinator.share.generated",
    "raft": "org.apache.kafka.raft.generated",
    "storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "streams": "org.apache.kafka.streams.internals.generated",
}

Question = dict[str, Any]
Answer = dict[str, Any]


def java_class(folder: str, name: str) -> str:
    """The class that Kafka's generator makes of the schema `name` in `folder`."""
    has_suffix = folder == "clients" and name.endswith(("Request", "Response", "Header"))
    return f"{_PACKAGES[folder]}.{name}{'Data' if has_suffix else ''}"


def encode(
    java_type: str, version: int, value: dict[str, Any], *, written_as: int | None = None
) -> Question:
    """Ask for the bytes of a value that is JSON of `version`, written in `written_as`."""
    question = {"op": "encode", "type": java_type, "version": version, "json": value}
    return question if written_as is None else {**question, "as": written_as}


def decode(java_type: str, version: int, data: bytes) -> Question:
    """Ask for the JSON of these bytes."""
    return {"op": "decode", "type": java_type, "version": version, "hex": data.hex()}


def ask(kafka: ApacheKafka, questions: Iterable[Question]) -> list[Answer]:
    """One answer a question, in order."""
    lines = [json.dumps(question) for question in questions]
    return [json.loads(answer) for answer in kafka.run_source(SOURCE, lines)]


class Kafkas(NamedTuple):
    """The two versions of Kafka that are asked."""

    of_4_3: ApacheKafka
    of_4_4: ApacheKafka

    def of(self, message: str) -> ApacheKafka:
        """The one whose schema of this message is declared."""
        return self.of_4_4 if message in oracle.OF_KAFKA_4_4 else self.of_4_3

    def ask(self, questions: Sequence[tuple[str, Question]]) -> list[Answer]:
        """One answer to each question about a message, in order."""
        answers: dict[int, Answer] = {}
        for kafka in self:
            chosen = [at for at, (name, _) in enumerate(questions) if self.of(name) is kafka]
            found = ask(kafka, [questions[at][1] for at in chosen])
            answers.update(zip(chosen, found, strict=True))
        return [answers[at] for at in range(len(questions))]

    def errors(self) -> list[dict[str, Any]]:
        """The error codes of the newer one, which are those of the older one and more."""
        return _table(self.of_4_4, "errors")

    def apis(self) -> list[dict[str, Any]]:
        """Each API of the version that its request is declared of."""
        older = {row["key"]: row for row in _table(self.of_4_3, "apis")}
        newer = {
            row["key"]: row
            for row in _table(self.of_4_4, "apis")
            if f"{row['name']}Request" in oracle.OF_KAFKA_4_4
        }
        rows = older | newer
        return [rows[key] for key in sorted(rows)]


def _table(kafka: ApacheKafka, name: str) -> list[dict[str, Any]]:
    (answer,) = ask(kafka, [{"op": name}])
    rows: list[dict[str, Any]] = answer[name]
    return rows
