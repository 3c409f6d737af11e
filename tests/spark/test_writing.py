"""Rows as records: which columns count, and which are ignored as Spark's own sink does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

types = pytest.importorskip("pyspark.sql.types")

from moldau.client.sync import Consumer, Producer  # noqa: E402
from moldau.errors import ConfigError  # noqa: E402
from moldau.spark.writing import parse_write  # noqa: E402
from moldau.testing import SyncEmbeddedBroker  # noqa: E402
from tests.spark.topics import HasAddress, make_topic, reader, stream  # noqa: E402

OLD_MS = int(datetime.now(UTC).timestamp()) * 1000 - 60_000


def columns(schema: str, **options: str) -> set[str]:
    """The columns of which a write makes records. `schema` is `name type, ...`."""
    kinds = {"string": types.StringType(), "timestamp": types.TimestampType(),
             "int": types.IntegerType(), "bigint": types.LongType()}  # fmt: skip
    fields = [each.split() for each in schema.split(", ")]
    struct = types.StructType([types.StructField(name, kinds[kind]) for name, kind in fields])
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t", **options}
    return set(parse_write(given, struct, overwrite=False, is_stream=True).columns)


def test_columns_that_a_record_does_not_have_are_ignored() -> None:
    assert columns("id bigint, value string, note int") == {"value"}
    with pytest.raises(ConfigError, match="rows need the column value"):
        columns("id bigint, key string")
    with pytest.raises(ConfigError, match="the column partition must be int"):
        columns("value string, partition string")


def test_the_time_counts_unless_rows_are_as_they_were_read() -> None:
    read = "value string, offset bigint, timestamp timestamp, timestampType int"
    assert columns("value string, timestamp timestamp") == {"value", "timestamp"}
    assert columns(read) == {"value"}
    assert columns(read, includeTimestamp="true") == {"value", "timestamp"}
    assert columns("value string, timestamp bigint", includeTimestamp="false") == {"value"}
    with pytest.raises(ConfigError, match="the column timestamp must be timestamp"):
        columns("value string, timestamp bigint")


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, "262144"),
        ({"batch.waiting.size": "100000"}, "100000"),
        ({"batch.size": "500"}, "500"),
        ({"batch.size": "500", "batch.waiting.size": "100000"}, "500"),
        ({"acks": "1"}, None),
        ({"batch.waiting.size": "100"}, None),
    ],
)
def test_batches_are_as_large_as_those_that_wait(given: dict[str, str], size: str | None) -> None:
    struct = types.StructType([types.StructField("value", types.StringType())])
    settings = {f"kafka.{name}": text for name, text in given.items()}
    to = {"kafka.bootstrap.servers": "b:1", "topic": "t", **settings}

    found = parse_write(to, struct, overwrite=False, is_stream=False)

    assert found.settings.get("batch.size") == size


def mirrored(broker: HasAddress, topic: str) -> list[Any]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        return [each for part in consumer.poll(10) for each in part.records]


@pytest.mark.real
def test_a_mirror_copies_a_topic(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    copies = {name: f"{moldau_topic}-{name}" for name in ("batch", "stream", "times")}
    for topic in (moldau_topic, *copies.values()):
        make_topic(moldau_broker, topic, 1)
    with Producer(bootstrap_servers=moldau_broker.bootstrap_servers) as producer:
        for value in (b"a", b"b"):
            producer.send(moldau_topic, value, key=b"k", timestamp_ms=OLD_MS).result(30)
    to_broker = {"kafka.bootstrap.servers": moldau_broker.bootstrap_servers}

    rows = reader(spark, moldau_broker, moldau_topic).load()
    written = rows.write.format("moldau").options(**to_broker).mode("append")
    written.option("topic", copies["batch"]).save()
    written.option("topic", copies["times"]).option("includeTimestamp", "true").save()
    changes = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()
    writer = changes.writeStream.format("moldau").options(**to_broker)
    writer = writer.option("topic", copies["stream"]).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(120)

    found = {name: mirrored(moldau_broker, topic) for name, topic in copies.items()}
    for records in found.values():
        assert [(each.key, each.value) for each in records] == [(b"k", b"a"), (b"k", b"b")]
    times = {name: {each.timestamp == OLD_MS for each in of} for name, of in found.items()}
    assert times == {"batch": {False}, "stream": {False}, "times": {True}}
