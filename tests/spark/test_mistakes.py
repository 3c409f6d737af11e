"""A user's mistake: its cause is near the top, and one line says what to do."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.node_processes import free_ports
from moldau.spark import java
from moldau.spark.options import parse_read
from moldau.spark.session import new_session
from moldau.spark.source import (
    SourceBatchReader,
    SourceFilteringReader,
    SourceStreamReader,
    TopicSource,
)
from moldau.spark.tracebacks import hide_frames
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic, reader, send, stream

SOURCE = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


def frames(error: BaseException) -> int:
    found, count = error.__traceback__, 0
    while found is not None:
        found, count = found.tb_next, count + 1
    return count


def deep(levels: int) -> None:
    if not levels:
        raise MoldauError("the cause", topic="t")
    deep(levels - 1)


def test_an_error_keeps_only_the_frame_that_spark_calls() -> None:
    with pytest.raises(MoldauError, match="the cause") as raised:
        hide_frames(deep)(30)

    assert frames(raised.value) == 2  # that of this test, and that of the wrapper
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_what_is_yielded_is_passed_on_and_its_error_is_short() -> None:
    def items() -> Any:
        yield 1
        deep(30)

    found = hide_frames(items)()

    assert next(found) == 1
    with pytest.raises(MoldauError) as raised:
        next(found)
    assert frames(raised.value) == 2


def test_a_bug_keeps_its_frames() -> None:
    def bug() -> None:
        [].pop()

    with pytest.raises(IndexError) as raised:
        hide_frames(bug)()

    assert frames(raised.value) == 3


def test_a_missing_topic_says_what_to_do() -> None:
    def read() -> None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="nope")

    with pytest.raises(KafkaError, match="Create the topic, or correct its name") as raised:
        hide_frames(read)()
    assert raised.value.context == {"topic": "nope"}


@pytest.mark.parametrize("kind", [SourceBatchReader, SourceFilteringReader, SourceStreamReader])
def test_readers_are_pickled_by_their_names(kind: Any) -> None:
    made = kind(parse_read(SOURCE, is_stream=False), None)

    copy = cloudpickle.loads(cloudpickle.dumps(made))

    assert type(copy) is kind
    assert copy.options == made.options
    is_stream = kind is SourceStreamReader
    assert isinstance(made, SupportsTriggerAvailableNow) == is_stream


def test_a_session_without_java_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_installed", lambda _: [])
    monkeypatch.setattr(java, "_packaged", lambda: None)

    with pytest.raises(ConfigError, match="Spark needs Java 17") as raised:
        new_session("none")
    assert frames(raised.value) == 2


@pytest.mark.parametrize("master", ["sprk://x", "spark:/x:7077", ""])
def test_a_master_that_spark_does_not_know_starts_no_java(master: str) -> None:
    with pytest.raises(ConfigError, match="Spark has no such master") as raised:
        new_session("none", master=master)
    assert frames(raised.value) == 2


def mistake(act: Any) -> str:
    """The text of the error, which has at most a few frames of Python."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark has many classes
        act()
    text = str(raised.value)
    assert text.count("  File ") <= 5, text
    assert "moldau/client/" not in text
    return text


@pytest.mark.real
def test_mistakes_in_a_read_are_short(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    def load(topic: str = moldau_topic, **options: str) -> Any:
        return reader(spark, moldau_broker, topic, **options).load()

    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, [b'{"id": 1}', b"{broken"])
    json = {"value.format": "json", "value.schema": "id BIGINT"}

    text = mistake(lambda: load("spark-nope").count())
    assert "Create the topic, or correct its name" in text
    assert "spark-nope" in text
    text = mistake(lambda: load(**{**json, "value.mode": "failfast"}).collect())
    assert f"topic='{moldau_topic}', partition=0, offset=1" in text
    text = mistake(lambda: load(**{**json, "value.schema": "id BIGNT"}))
    assert "Spark has no type BIGNT (option='value.schema', field='id'" in text
    text = mistake(lambda: load(startingOffsets="newest"))
    assert "must be a keyword or a JSON object" in text
    fixed = spark.read.format("moldau").schema("value STRING").options(**SOURCE)
    assert "the source has a fixed schema" in mistake(lambda: fixed.load().count())
    unreachable = spark.read.format("moldau").options(**SOURCE).options(
        **{"kafka.bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}",
           "kafka.start.timeout.ms": "500"}
    )  # fmt: skip
    assert "127.0.0.1" in mistake(lambda: unreachable.load().count())


@pytest.mark.real
def test_mistakes_in_a_write_or_a_stream_are_short(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Any
) -> None:
    rows = spark.range(3).selectExpr("id AS value")
    writer = rows.write.format("moldau").options(**SOURCE).mode("append")
    assert "the column value must be binary or string" in mistake(writer.option("topic", "t").save)
    missing = stream(spark, moldau_broker, "spark-nope").load()

    def run() -> None:
        query = missing.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination(60)

    assert "Create the topic, or correct its name" in mistake(run)


def test_the_extras_have_a_spark_on_which_the_source_exists() -> None:
    # PySpark 4.1 has no pyspark.sql.streaming.datasource.
    text = (Path(__file__).parents[2] / "connectors" / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]

    assert "pyspark[sql]>=4.2,<5" in extras["spark"]
    assert "pyspark[connect]>=4.2,<5" in extras["spark-connect"]


def test_the_columns_of_a_read_are_fixed() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    for given in ("value", "key value topic partition offset timestamp"):
        fields = [types.StructField(each, types.StringType()) for each in given.split()]
        source = TopicSource(dict(SOURCE))
        with pytest.raises(ConfigError, match="the source has a fixed schema"):
            source.reader(types.StructType(fields))
        with pytest.raises(ConfigError, match="the source has a fixed schema"):
            source.streamReader(types.StructType(fields))
