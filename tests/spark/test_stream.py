"""Micro-batches on a real Spark and the embedded broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.errors import MoldauError
from moldau.spark.options import parse_read
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark.topics import make_topic, numbers, reader, send, stream, values_of

pytestmark = pytest.mark.real


def _to_parquet(rows: Any, target: Path) -> Any:
    """A run that ends when it has read what is there."""
    query = (
        rows.selectExpr("CAST(value AS STRING) AS value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(target / "rows"))
    )
    assert query.awaitTermination(120)
    return query


def _values(session: Any, target: Path) -> list[int]:
    return values_of(session.read.parquet(str(target / "rows")))


def test_a_run_ends_at_what_is_there_and_the_next_goes_on(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, numbers(500))
    send(moldau_broker, moldau_topic, numbers(100, 500), partition=1)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "250"}
    rows = stream(
        spark, moldau_broker, moldau_topic, **options, **{"kafka.group.id": moldau_topic}
    ).load()

    query = _to_parquet(rows, tmp_path)

    sizes = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert sum(sizes) == 600
    assert len(sizes) >= 3
    assert max(sizes) <= 252
    assert _values(spark, tmp_path) == list(range(600))

    send(moldau_broker, moldau_topic, numbers(50, 600))
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_partitions(moldau_topic, 3)
    send(moldau_broker, moldau_topic, numbers(10, 650), partition=2)
    _to_parquet(rows, tmp_path)

    assert _values(spark, tmp_path) == list(range(660))
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        stored = admin.group_offsets(moldau_topic)
    assert {where.partition: each.offset for where, each in stored.items()} == {
        0: 550,
        1: 100,
        2: 10,
    }


def test_offsets_of_a_batch_that_is_done_are_stored_once_and_without_another_batch(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    pytest.importorskip("pyspark")
    from moldau.spark.reading import StreamReader

    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(5))
    options = {
        "kafka.bootstrap.servers": moldau_broker.bootstrap_servers,
        "subscribe": moldau_topic,
        "startingOffsets": "earliest",
        "kafka.group.id": moldau_topic,
    }
    found = StreamReader(parse_read(options, is_stream=True), None)
    every = found.getDefaultReadLimit()
    try:
        with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
            end = found.latestOffset(found.initialOffset(), every)
            assert not admin.group_offsets(moldau_topic)

            assert found.latestOffset(end, every) == end
            stored = admin.group_offsets(moldau_topic)
            assert stored[TopicPartition(moldau_topic, 0)].offset == 5

            admin.delete_groups([moldau_topic])
            found.commit(end)
            assert not admin.group_offsets(moldau_topic)
    finally:
        found.stop()


def test_records_that_were_deleted_end_the_query_unless_told_otherwise(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    rows = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()
    _to_parquet(rows, tmp_path)
    send(moldau_broker, moldau_topic, numbers(10, 10))
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.delete_records({(moldau_topic, 0): 15})

    with pytest.raises(Exception, match="offsets 10 to 15 were deleted"):
        _to_parquet(rows, tmp_path)

    tolerant = stream(
        spark, moldau_broker, moldau_topic, startingOffsets="earliest", failOnDataLoss="false"
    ).load()
    _to_parquet(tolerant, tmp_path)
    assert _values(spark, tmp_path) == [*range(10), *range(15, 20)]


COMPACTING = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576"}


def _offsets(broker: SyncEmbeddedBroker, topic: str) -> list[int]:
    """Which offsets of partition 0 there still are."""
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 0)
        end = consumer.end_offsets([(topic, 0)])[TopicPartition(topic, 0)]
        found: list[int] = []
        while (consumer.position((topic, 0)) or 0) < end:
            found += [each.offset for part in consumer.poll(1.0) for each in part.records]
    return found


def test_holes_that_compaction_has_left_are_passed_over(
    spark: Any, moldau_topic: str, tmp_path: Path
) -> None:
    """Batches of 30 offsets begin, end and lie in a hole of 300."""
    with SyncEmbeddedBroker(COMPACTING) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(NewTopic(moldau_topic, 1, configs=COMPACTED))
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(300):
                producer.send(moldau_topic, str(number).encode(), key=b"%d" % (number % 10))
            for number in range(4):  # the segment that is written to is never compacted
                filler = b"%d" % (number + 1_000) + b" " * 600_000
                producer.send(moldau_topic, filler, key=b"filler %d" % number).result(60)
        wait_until(lambda: len(_offsets(broker, moldau_topic)) == 14, "compaction", 120)
        given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
        rows = stream(spark, broker, moldau_topic, **given).load()

        query = _to_parquet(rows, tmp_path)

        kept = [*range(290, 300), *range(1_000, 1_004)]
        assert _values(spark, tmp_path) == kept
        assert query.lastProgress["batchId"] >= 9
        batch = reader(spark, broker, moldau_topic, minPartitions="7").load()
        assert values_of(batch) == kept


def test_a_topic_that_was_made_again_is_noticed(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    rows = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()
    _to_parquet(rows, tmp_path)
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.delete_topic(moldau_topic)
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(25, 100))

    with pytest.raises(Exception, match="the topic was deleted and made again"):
        _to_parquet(rows, tmp_path)

    tolerant = stream(
        spark, moldau_broker, moldau_topic, startingOffsets="earliest", failOnDataLoss="false"
    ).load()
    _to_parquet(tolerant, tmp_path)
    assert _values(spark, tmp_path) == [*range(10), *range(100, 125)]


@pytest.mark.parametrize("count", [3, 10, 25])
def test_a_topic_that_was_made_again_is_read_from_its_beginning(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, count: int
) -> None:
    every = pytest.importorskip("pyspark.sql.streaming.datasource").ReadAllAvailable()
    from moldau.spark.reading import StreamReader

    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    options = {
        "kafka.bootstrap.servers": moldau_broker.bootstrap_servers,
        "subscribe": moldau_topic,
        "startingOffsets": "earliest",
    }
    strict = StreamReader(parse_read(options, is_stream=True), None)
    lenient = StreamReader(parse_read({**options, "failOnDataLoss": "false"}, is_stream=True), None)
    try:
        begun = strict.latestOffset(strict.initialOffset(), every)
        assert strict.latestOffset(begun, every) == begun
        with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
            admin.delete_topic(moldau_topic)
        make_topic(moldau_broker, moldau_topic, 1)
        send(moldau_broker, moldau_topic, numbers(count))

        with pytest.raises(MoldauError, match="the topic was deleted and made again"):
            strict.latestOffset(begun, every)
        with pytest.raises(MoldauError, match="the topic was deleted and made again"):
            strict.partitions({moldau_topic: {"0": 5}}, begun)
        assert lenient.partitions({moldau_topic: {"0": 5}}, begun) == []
        ended = lenient.latestOffset(begun, every)
        assert [each.value[1:3] for each in lenient.partitions(begun, ended)] == [(0, count)]
        assert lenient.latestOffset(ended, every) == ended
        assert lenient.latestOffset({moldau_topic: {"0": count}}, every) == {
            moldau_topic: {"0": count}
        }
    finally:
        strict.stop()
        lenient.stop()


def test_a_topic_of_a_pattern_that_is_deleted_is_noticed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    every = pytest.importorskip("pyspark.sql.streaming.datasource").ReadAllAvailable()
    from moldau.spark.reading import StreamReader

    doomed = f"{moldau_topic}-doomed"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, doomed, 1)
    options = {
        "kafka.bootstrap.servers": moldau_broker.bootstrap_servers,
        "subscribePattern": f"{moldau_topic}.*",
        "startingOffsets": "earliest",
    }
    begun = {moldau_topic: {"0": 0}, doomed: {"0": 0}}
    strict = StreamReader(parse_read(options, is_stream=True), None)
    lenient = StreamReader(parse_read({**options, "failOnDataLoss": "false"}, is_stream=True), None)
    try:
        assert strict.latestOffset(begun, every) == begun
        with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
            admin.delete_topic(doomed)

        with pytest.raises(MoldauError, match=f"{doomed}-0: the partition no longer exists"):
            strict.latestOffset(begun, every)
        assert lenient.latestOffset(begun, every) == begun
    finally:
        strict.stop()
        lenient.stop()


def test_a_stream_writes_records(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    target = f"{moldau_topic}-out"
    make_topic(moldau_broker, moldau_topic)
    make_topic(moldau_broker, target)
    send(moldau_broker, moldau_topic, numbers(300))
    rows = stream(spark, moldau_broker, moldau_topic, startingOffsets="earliest").load()

    query = (
        rows.select("key", "value")
        .writeStream.format("moldau")
        .option("kafka.bootstrap.servers", moldau_broker.bootstrap_servers)
        .option("topic", target)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)

    written = (
        spark.read.format("moldau")
        .option("kafka.bootstrap.servers", moldau_broker.bootstrap_servers)
        .option("subscribe", target)
        .load()
    )
    assert values_of(written) == list(range(300))
