"""A Spark sink in a pipeline on its own broker: updates into a topic, and dead letters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.connectors.spark.runners import SMALL, need_spark
from tests.pipeline.running import Folder, wait_until

pytestmark = [pytest.mark.real, pytest.mark.deep]

PATIENCE_S = 400.0
"""Two queries begin in one session, and a busy machine starts Python slowly."""
PIPELINE = """
pipeline: words
worker:
  settings: {key.converter: StringConverter, value.converter: StringConverter}
topics:
  orders: {partitions: 2}
  totals: {partitions: 2}
  bad: {partitions: 1}
sources:
  read: {connector.class: FileStreamSource, topic: orders, file: orders.jsonl}
sinks:
  sum-up:
    connector.class: SparkSinkConnector
    topics: orders
    value.schema: customer STRING, amount BIGINT
    errors.tolerance: all
    errors.deadletterqueue.topic.name: bad
    transforms.sql: SELECT customer, sum(amount) AS total FROM source GROUP BY customer
    output.mode: update
    sink.format: topic
    sink.topic: totals
    sink.keys: customer
    kafka.compression.type: lz4
    trigger: processing 1 second
    checkpoint.location: checkpoints
    CONF
  write: {connector.class: FileStreamSink, topics: totals, file: totals.jsonl}
  write-bad: {connector.class: FileStreamSink, topics: bad, file: bad.txt}
"""


def test_changed_rows_go_to_a_topic_and_bad_values_to_another(tmp_path: Path) -> None:
    need_spark()
    folder = Folder(tmp_path)
    conf = "\n    ".join(f"{name}: {json.dumps(text)}" for name, text in SMALL.items())
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("CONF", conf))
    source = tmp_path / "orders.jsonl"
    source.write_text('{"customer": "ann", "amount": 2}\n{broken\n')

    def totals() -> dict[str, int]:
        file = tmp_path / "totals.jsonl"
        rows = [json.loads(each) for each in file.read_text().splitlines()] if file.exists() else []
        return {each["customer"]: each["total"] for each in rows}

    def bad() -> str:
        file = tmp_path / "bad.txt"
        return file.read_text() if file.exists() else ""

    with folder.running() as run:
        wait_until(lambda: totals() == {"ann": 2}, "the first total", PATIENCE_S)
        with source.open("a") as file:
            file.write('{"customer": "ann", "amount": 5}\n{"customer": "ben", "amount": 1}\n')
        wait_until(lambda: totals() == {"ann": 7, "ben": 1}, "the changed totals", PATIENCE_S)
        wait_until(lambda: "{broken" in bad(), "the dead letter", PATIENCE_S)
        rows = {each["part"]: each for each in json.loads(_status(folder))}
        assert rows["sum-up"]["state"] == "RUNNING"
        run.stop()


def _status(folder: Folder) -> str:
    return folder.moldau("pipeline", "status", "--json")
