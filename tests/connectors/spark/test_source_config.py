"""The settings of the Spark source, and what it says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.connect.errors import ConnectError
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.connectors.spark.source_connector import SparkSourceConnector
from moldau.errors import ConfigError
from tests.connectors.spark.file_stream import FILES


def given(**changed: str) -> dict[str, str]:
    return {name: text for name, text in {**FILES, **changed}.items() if text}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"source.format": ""}, "give either source.format or query"),
        ({"query": "SELECT 1"}, "give either source.format or query"),
        ({"source.path": ""}, "source.format=json needs it"),
        ({"partitioner": "x"}, "partitioner is not supported: give the column partition"),
        ({"spark.task.per.topic": "true"}, "a source writes one topic"),
        ({"spark.reader": "jvm"}, "topics are read by the client of this package"),
        ({"source.schema": ""}, "a stream of json files needs it"),
        ({"source.format": "delta"}, "Spark cannot follow delta"),
        ({"source.format": "", "query": "SELECT 1"}, "Spark cannot follow a query"),
        ({"source.format": "jdbc", "source.table": "t", "mode": "bulk"}, "needs it"),
        ({"mode": "incremental"}, "mode=incremental needs it"),
        ({"topic": ""}, "topic"),
        ({"value.format": "columns", "key.columns": "id"}, "makes keys and headers itself"),
        ({"value.format": "avro"}, "value.format=avro needs it, or value.schema"),
        ({"value.registry": "http://x"}, "it is for value.format=avro"),
        ({"value.schema": "id BIGINT"}, "it is for value.format=avro"),
        ({"value.format": "avro", "value.schema": "id BIGINT"}, "Avro schema cannot be used"),
        ({"value.format": "avro", "value.schema": '"long"'}, "the Avro schema of a record"),
        ({"trigger": "sometimes"}, "processing 10 seconds"),
        ({"transforms": "mask"}, r"use transforms\.sql or transforms\.python"),
        ({"value.converter": "X"}, r"use value\.format and key\.columns"),
        ({"spark.master": "mesos://x:1"}, "this is no Spark master"),
        ({"source.schema": "id BIGNT"}, "no type BIGNT"),
        (
            {
                "mode": "bulk",
                "source.format": "jdbc",
                "source.table": "t",
                "jdbc.url": "sqlite://",
                "source.option.fetchsize": "5",
            },
            "jdbc has no options",
        ),
        ({"schedule.interval.ms": "0"}, "schedule.interval.ms"),
    ],
)
def test_what_does_not_go_together_is_named(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SparkSourceConfig.of(given(**changed))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "exactly once: each task's records"),
        ({"exactly.once": "off"}, "at least once: a batch that is repeated"),
        ({"mode": "bulk"}, "at least once: each read sends all rows"),
        ({"mode": "incremental", "incremental.column": "id"}, "since the last stored offset"),
        ({"errors.tolerance": "all"}, "; rows that cannot be parsed are dropped"),
    ],
)
def test_it_says_what_it_promises(changed: dict[str, str], words: str) -> None:
    assert words in SparkSourceConnector.guarantee(given(**changed))


def _altered(props: dict[str, str], offset: dict[str, Any] | None, source: str) -> bool:
    pairs: list[tuple[dict[str, Any], dict[str, Any] | None]] = [({"source": source}, offset)]
    return SparkSourceConnector().alter_offsets({**props, "name": "in"}, pairs)


def test_a_stream_is_reset_by_a_new_generation(tmp_path: Path) -> None:
    props = given(**{"checkpoint.location": str(tmp_path)})

    assert _altered(props, None, "json:/data/in")

    assert CheckpointFolder(str(tmp_path), "in").generations.current().number == 1
    with pytest.raises(ConnectError, match="null, which resets it"):
        _altered(props, {"batch": 3}, "json:/data/in")


def test_an_incremental_source_goes_on_above_any_value(tmp_path: Path) -> None:
    props = given(**{"mode": "incremental", "incremental.column": "id",
                     "checkpoint.location": str(tmp_path)})  # fmt: skip

    assert _altered(props, {"max": "17"}, "json:/data/in")
    with pytest.raises(ConnectError, match="this is no offset"):
        _altered(props, {"max": 17}, "json:/data/in")
    with pytest.raises(ConnectError, match="no partition of the source"):
        _altered(props, None, "json:/elsewhere")
