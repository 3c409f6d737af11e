"""`value.format=avro` of the Spark source: a real broker, a real Spark, a registry's HTTP."""

from __future__ import annotations

import io
import json
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("fastavro")

import fastavro

from moldau.client.serdes import AvroDeserializer
from moldau.client.sync import Consumer, SchemaRegistry
from moldau.connectors.spark.avro_values import AvroValues
from moldau.connectors.spark.records import RecordLayout
from moldau.errors import ConfigError
from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.served_registry import served_registry
from tests.connectors.spark.runners import SMALL, need_spark, running
from tests.spark.avro_order import ORDER
from tests.spark.topics import make_topic

EVERYTHING: Final = """
SELECT id, CAST(id AS SMALLINT) AS small, id = 3 AS is_three, CAST(id / 4 AS FLOAT) AS quarter,
       id / 3 AS third, concat('\u010d', id) AS name, CAST('ab' AS BINARY) AS raw,
       CAST(id * 1.25 AS DECIMAL(10, 2)) AS money, DATE'2026-11-25' AS day,
       TIMESTAMP'2026-11-25 10:00:00.123456Z' AS at,
       TIMESTAMP_NTZ'2026-11-25 10:00:00.123456' AS local, array(id, NULL) AS ids,
       map('a', id) AS counts, named_struct('x', id, 'y', IF(id = 1, NULL, 'z')) AS inner,
       IF(id = 2, NULL, id) AS maybe
FROM range(4)
"""


@pytest.mark.real
def test_rows_are_read_by_every_reader_of_avro(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    with served_registry() as served:
        config = {
            "query": EVERYTHING,
            "topic": moldau_topic,
            "key.columns": "id",
            "headers.columns": "name",
            "timestamp.column": "at",
            "value.format": "avro",
            "value.registry": served.url,
            "trigger": "available-now",
            "checkpoint.location": str(tmp_path / "checkpoints"),
            **SMALL,
        }
        with running(moldau_broker, moldau_topic, config, kind="source") as events:
            events.until("finished")

        options = {
            "kafka.bootstrap.servers": moldau_broker.bootstrap_servers,
            "subscribe": moldau_topic,
            "value.format": "avro",
            "value.registry": served.url,
            "value.mode": "failfast",
            "includeHeaders": "true",
        }
        rows = spark.read.format("moldau").options(**options).load().orderBy("value.id").collect()
        assert [each.value for each in rows] == spark.sql(EVERYTHING).collect()
        assert [each.key for each in rows] == [b"0", b"1", b"2", b"3"]
        assert rows[1].headers[0].asDict() == {"key": "name", "value": "\u010d1".encode()}
        milliseconds = rows[0].value.at.replace(microsecond=123_000)
        assert {each.timestamp for each in rows} == {milliseconds}

        values: dict[int, Any] = {}
        with (
            SchemaRegistry(served.url) as registry,
            Consumer(
                bootstrap_servers=moldau_broker.bootstrap_servers,
                value_deserializer=AvroDeserializer(registry),
            ) as consumer,
        ):
            latest = registry.latest(f"{moldau_topic}-value")
            consumer.assign([(moldau_topic, 0)])
            consumer.seek((moldau_topic, 0), 0)
            while len(values) < 4:
                found = [record.value for part in consumer.poll(5) for record in part.records]
                values |= {each["id"]: each for each in found}
        expected = rows[1].value.asDict(recursive=True)
        assert values[1] == {**expected, "at": expected["at"].replace(tzinfo=UTC)}
        schema = fastavro.parse_schema(json.loads(latest.schema.text))
        raw = spark.read.format("moldau").options(
            **{name: text for name, text in options.items() if not name.startswith("value")}
        )
        for each in raw.load().collect():
            assert each.value[:5] == b"\0" + latest.id.to_bytes(4, "big")
            read: Any = fastavro.schemaless_reader(io.BytesIO(each.value[5:]), schema, None)
            assert read == values[read["id"]]


@pytest.mark.real
def test_a_stream_with_a_schema_of_its_own_tells_of_a_row_that_does_not_fit(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 1)
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "a.json").write_text('{"id": 1, "note": "x", "region": "eu"}\n')
    config = {
        "mode": "stream",
        "source.format": "json",
        "source.path": str(rows),
        "source.schema": "id BIGINT, note STRING, region STRING",
        "topic": moldau_topic,
        "key.columns": "region",
        "value.format": "avro",
        "value.schema": ORDER,
        "trigger": "available-now",
        "checkpoint.location": str(tmp_path / "checkpoints"),
        **SMALL,
    }
    with running(moldau_broker, moldau_topic, config, kind="source") as events:
        events.until("finished")
    (rows / "b.json").write_text('{"note": "y", "region": "eu"}\n')
    with running(moldau_broker, moldau_topic, config, kind="source") as events:
        assert events.until_over() == "failed"

    cause = events.all[-1]["cause"]
    assert "a row does not fit value.schema" in cause
    assert "column='id'" in cause
    with Consumer(bootstrap_servers=moldau_broker.bootstrap_servers) as consumer:
        consumer.assign([(moldau_topic, 0)])
        consumer.seek((moldau_topic, 0), 0)
        [part] = consumer.poll(20)
    assert [(each.key, each.value) for each in part.records] == [(b"eu", b"\x02\x02\x02x")]


@pytest.mark.real
def test_columns_that_differ_from_the_schema_are_told_before_anything_runs(spark: Any) -> None:
    layout = RecordLayout("avro", key_columns=["region"], avro=AvroValues("orders", ORDER, None))
    rows = spark.createDataFrame([(1, "eu", 2)], "note STRING, region STRING, extra INT")
    with pytest.raises(ConfigError, match="missing='id', not_in_schema='extra'"):
        layout.to_records(rows)

    assert layout.to_records(rows.selectExpr("1L AS id", "region")).columns == ["value", "key"]


@pytest.mark.real
def test_a_registry_that_takes_no_schema_is_one_line(spark: Any) -> None:
    with served_registry() as served:
        url = served.url
    layout = RecordLayout("avro", avro=AvroValues("orders", None, url))
    with pytest.raises(ConfigError, match="the registry does not take the schema") as raised:
        layout.to_records(spark.range(1))
    assert "\n" not in str(raised.value)
