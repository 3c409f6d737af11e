"""Kafka's own generated classes, asked in bulk through `java/KafkaOracle.java`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


def errors(kafka: ApacheKafka) -> list[dict[str, Any]]:
    """The error codes."""
    return _table(kafka, "errors")


def apis(kafka: ApacheKafka) -> list[dict[str, Any]]:
    """The APIs, by their keys."""
    return sorted(_table(kafka, "apis"), key=lambda row: row["key"])


def _table(kafka: ApacheKafka, name: str) -> list[dict[str, Any]]:
    (answer,) = ask(kafka, [{"op": name}])
    rows: list[dict[str, Any]] = answer[name]
    return rows
