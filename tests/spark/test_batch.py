"""Read and write batches with a real Spark and the embedded broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from moldau.client.sync import Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic, numbers, reader, send, values_of

pytestmark = pytest.mark.real


AT_MS: Final = int(datetime.now(UTC).timestamp()) * 1000 + 123
"""New enough that no broker deletes the record."""


def test_rows_are_those_of_the_kafka_source(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    with Producer(bootstrap_servers=moldau_broker.bootstrap_servers) as producer:
        producer.send(
            moldau_topic, b"v", key=b"k", partition=1, headers=[("h", b"1")], timestamp_ms=AT_MS
        ).result()
        producer.send(moldau_topic, None, key=None, partition=1, timestamp_ms=AT_MS + 1).result()

    rows = reader(spark, moldau_broker, moldau_topic, includeHeaders="true").load()

    assert [(each.name, each.dataType.simpleString()) for each in rows.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    first, second = rows.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (
        moldau_topic,
        1,
        0,
        0,
    )
    assert first.timestamp.timestamp() == AT_MS / 1000
    assert [(each.key, bytes(each.value)) for each in first.headers] == [("h", b"1")]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_batch_reads_between_offsets(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, numbers(100))
    send(moldau_broker, moldau_topic, numbers(50, 100), partition=1)

    rows = reader(
        spark,
        moldau_broker,
        moldau_topic,
        startingOffsets=json.dumps({moldau_topic: {"0": 90, "1": -2}}),
        endingOffsets=json.dumps({moldau_topic: {"0": -1, "1": 5}}),
        minPartitions="4",
    ).load()

    assert values_of(rows) == [*range(90, 100), *range(100, 105)]
    assert rows.rdd.getNumPartitions() == 4


def test_filters_narrow_what_is_read(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, numbers(100))
    send(moldau_broker, moldau_topic, numbers(100, 100), partition=1)

    rows = reader(spark, moldau_broker, moldau_topic, pushFilters="true").load()
    chosen = rows.where("partition = 1 AND offset >= 10 AND offset < 20")

    assert values_of(chosen) == list(range(110, 120))
    assert chosen.rdd.getNumPartitions() == 1
    assert values_of(rows.where("offset IN (3, 5)")) == [3, 5, 103, 105]
    assert values_of(rows.where("offset IN (3, NULL)")) == [3, 103]
    assert values_of(rows.where("partition IN (1, NULL) AND offset < 2")) == [100, 101]
    assert values_of(rows.where("offset NOT IN (3, NULL)")) == []


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_that_starts_after_the_end_of_a_log_fails(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, fails: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, numbers(10))
    starts = json.dumps({moldau_topic: {"0": 11, "1": -2}})
    options = {"startingOffsets": starts, "failOnDataLoss": fails}
    words = f"a read cannot start after its end.*{moldau_topic}-0: from 11 to 10"

    with pytest.raises(Exception, match=words):
        reader(spark, moldau_broker, moldau_topic, **options).load().count()
    last = json.dumps({moldau_topic: {"0": 10, "1": 0}})
    at_end = {"startingOffsets": last, "failOnDataLoss": fails}
    assert reader(spark, moldau_broker, moldau_topic, **at_end).load().count() == 0


def test_an_empty_topic_has_no_rows(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)

    assert reader(spark, moldau_broker, moldau_topic).load().count() == 0


def test_values_are_typed(spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> None:
    make_topic(moldau_broker, moldau_topic)
    good = b'{"id": 1, "amount": 2.5,\n "at": "2026-11-23T10:00:00Z", "day": "2026-11-23", "x": 1}'
    send(moldau_broker, moldau_topic, [good, b"{broken", None, b'{"id": 2}'])

    schema = "id BIGINT, amount DOUBLE, at TIMESTAMP, day DATE"
    options = {"value.format": "json", "value.schema": schema}
    rows = reader(spark, moldau_broker, moldau_topic, **options).load()

    found = rows.orderBy("offset").select("value.*").collect()
    assert [row.id for row in found] == [1, None, None, 2]
    assert (found[0].amount, str(found[0].day)) == (2.5, "2026-11-23")
    assert found[0].at.astimezone(UTC) == datetime(2026, 11, 23, 10, tzinfo=UTC)


def test_rows_become_records(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic)
    rows = spark.range(1000).selectExpr(
        f"'{moldau_topic}' AS topic",
        "CAST(id AS STRING) AS key",
        "CAST(id AS STRING) AS value",
        "array(named_struct('key', 'h', 'value', CAST('1' AS BINARY))) AS headers",
        "CAST(id % 2 AS INT) AS partition",
    )

    rows.write.format("moldau").option(
        "kafka.bootstrap.servers", moldau_broker.bootstrap_servers
    ).mode("append").save()

    assert values_of(reader(spark, moldau_broker, moldau_topic).load()) == list(range(1000))
    with Consumer(bootstrap_servers=moldau_broker.bootstrap_servers) as consumer:
        consumer.assign([(moldau_topic, 1)])
        consumer.seek((moldau_topic, 1), 0)
        record = consumer.poll(10)[0].records[0]
    assert int(record.value) % 2 == 1
    assert [name for name, _ in record.headers] == ["h"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "a batch cannot start at the latest offset"),
        ({"minPartitions": "none"}, "use a whole number"),
        ({"value.format": "json"}, "value.format=json needs it"),
        ({"kafka.auto.offset.reset": "latest"}, "use the option startingOffsets"),
    ],
)
def test_a_wrong_option_is_named(
    spark: Any,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    options: dict[str, str],
    words: str,
) -> None:
    make_topic(moldau_broker, moldau_topic)

    with pytest.raises(Exception, match=words):
        reader(spark, moldau_broker, moldau_topic, **options).load().count()


def test_a_batch_that_comes_to_the_driver_has_no_greatest_size(spark: Any) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "0"
