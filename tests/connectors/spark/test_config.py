"""The settings of the Spark sink, and what it says about them."""

from __future__ import annotations

import re

import pytest

from moldau.connectors.spark.config import SparkSinkConfig, subscription
from moldau.errors import ConfigError
from tests.connectors.spark.orders_lake import ORDERS_LAKE, config


def test_the_config_of_the_docs_is_good_as_it_is() -> None:
    found = config()

    assert found.is_available_now
    assert found.guarantee.startswith("exactly once")
    assert subscription(ORDERS_LAKE) == {"subscribe": "orders"}
    (pattern,) = subscription({"topics.regex": "(?i)orders|eu-.*"}).values()
    assert re.search(pattern, "Orders")
    assert not re.search(pattern, "all-orders")
    assert not re.search(pattern, "orders-2")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trigger": "sometimes"}, "processing 10 seconds"),
        ({"value.schema": ""}, "value.format=json needs it"),
        ({"sink.path": ""}, "sink.format=parquet needs it"),
        ({"sink.format": "xlsx"}, "sink.format"),
        ({"sink.format": "topic"}, "sink.format=topic needs it"),
        (
            {"sink.format": "topic", "sink.topic": "t", "partition.by": "id"},
            "topic has no partitions",
        ),
        ({"sink.mode": "upsert"}, "only jdbc and delta can replace rows"),
        (
            {"sink.format": "iceberg", "sink.table": "orders", "sink.option.uri": "x"},
            "name the namespace too",
        ),
        ({"value.format": "protobuf"}, "value.format=protobuf needs it"),
        ({"value.format": "avro", "value.schema": "infer"}, "infer is for value.format=json"),
        ({"value.format": "string", "value.registry": "http://r"}, "it is for value.format="),
        ({"watermark": "at"}, "a column and a delay"),
        ({"watermark": "at, ten minutes"}, "a column and a delay"),
        ({"transforms.python": "shop.orders"}, "write module:function"),
        ({"starting.offsets": "soon"}, "use earliest, latest or JSON"),
        ({"starting.offsets": '{"orders":3}'}, "use a number for each partition"),
        ({"value.schema": "registry"}, r"value\.schema=registry needs its address"),
        ({"key.format": "json"}, r"key\.format=json needs it"),
        ({"value.format": "csv", "value.schema": ""}, "value.format=csv needs it"),
        ({"spark.packages": "a:b:1,hadoop"}, "write group:artifact:version, not 'hadoop'"),
        (
            {"spark.packages": "a:b:1", "spark.deploy": "remote", "spark.remote": "sc://h"},
            "a server that runs already takes no jars",
        ),
        ({"spark.reader": "jvm"}, "topics are read by the client of this package"),
        ({"spark.reader": "java"}, "use auto or python, not 'java'"),
        ({"exactly.once": "off"}, "the format decides what is promised"),
        ({"exactly.once": "true"}, "use auto, not 'true'"),
        ({"auto.evolve": "true"}, "it is for delta, iceberg, jdbc"),
        ({"sink.format": "delta", "target.file.rows": "5"}, "it is for parquet, orc, json, csv"),
        ({"sink.mode": "overwrite"}, "only delta, iceberg, jdbc can be overwritten"),
        ({"sink.format": "delta", "sink.mode": "overwrite"}, r"it needs output\.mode=complete"),
        ({"sink.format": "delta", "output.mode": "complete"}, r"use overwrite, or upsert"),
        ({"output.mode": "complete"}, "can only be appended to"),
        ({"spark.deploy": "remote"}, "spark.deploy=remote needs it"),
        (
            {"value.format": "string", "errors.deadletterqueue.topic.name": "d"},
            "each value fits value.format=string",
        ),
        ({"transforms": "mask"}, r"use transforms\.sql or transforms\.python"),
        ({"transforms.mask.type": "MaskField"}, r"\(transforms\.mask\.type\): use transforms\.sql"),
        ({"predicates": "p", "predicates.p.type": "X"}, r"\(predicates, predicates\.p\.type\)"),
        ({"key.converter": "X"}, r"does not use key\.converter: use value\.format and key\.format"),
        ({"value.converter.schemas.enable": "false"}, r"does not use value\.converter"),
        ({"header.converter": "X"}, r"does not use header\.converter"),
        ({"sink.format": "topic", "sink.topic": "orders"}, "reads the topic orders itself"),
        (
            {
                "sink.format": "topic",
                "sink.topic": "orders-copy",
                "topics": "",
                "topics.regex": "orders.*",
            },
            "reads the topic orders-copy itself",
        ),
        (
            {
                "sink.format": "topic",
                "sink.topic": "${topic}-copy",
                "topics": "orders,orders-copy",
                "tasks.max": "2",
                "spark.task.per.topic": "true",
            },
            "reads the topic orders-copy itself",
        ),
        ({"spark.master": "spark://host"}, "this is no Spark master"),
        (
            {
                "errors.tolerance": "all",
                "errors.log.enable": "true",
                "key.format": "json",
                "key.schema": "id INT",
            },
            "skipped records are logged for value.format=json and csv",
        ),
        (
            {"errors.tolerance": "all", "errors.log.include.messages": "true"},
            "has no contents of records",
        ),
        ({"value.schema": "id BIGNT"}, r"no type BIGNT \(option='value\.schema', field='id'"),
        ({"value.schema": '{"type": "object"}'}, "give the columns as Spark's DDL"),
        ({"value.schema": "struct<id BIGINT>"}, "give only its columns"),
        ({"value.schema": "id"}, "the column has no type"),
        ({"key.format": "json", "key.schema": "id BIGNT"}, r"option='key\.schema'"),
        ({"watermark": "at, 10 bananas"}, "a column and a delay"),
        (
            {"sink.format": "table", "sink.table": "t"},
            "table is not supported: use iceberg or delta",
        ),
        (
            {"sink.format": "jdbc", "sink.table": "t", "jdbc.url": "postgresql:/foo"},
            r"jdbc\.url is neither jdbc:",
        ),
        (
            {
                "sink.format": "jdbc",
                "sink.table": "t",
                "jdbc.url": "sqlite://",
                "sink.option.batchsize": "5",
            },
            r"jdbc has no options \(sink\.option\.batchsize\)",
        ),
        ({"spark.master": "local[x]"}, "this is no Spark master"),
        ({"spark.master": "http://host:7077"}, "this is no Spark master"),
        (
            {"spark.deploy": "remote", "spark.remote": "http://host:15002"},
            "no address of a Spark Connect server",
        ),
        ({"spark.conf.spark.driver.memory": "2g"}, r"write spark\.conf\.driver\.memory"),
    ],
)
def test_what_does_not_go_together_is_named(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"value.schema": "id bigint NOT NULL COMMENT 'a, b <c', `a b`: DECIMAL(10, 2), at DATE"},
        {"value.schema": "tags ARRAY<STRING>, place STRUCT<x: INT, y: MAP<STRING, BIGINT>>"},
        {"watermark": "at,10 minutes"},
        {"watermark": "at, INTERVAL 1 hour"},
        {"watermark": "at, 1 minute 30 seconds"},
        {"watermark": "`made-at`, interval '5' minutes"},
        {"transforms.python": "shop.rows:cleaned"},
        {"starting.offsets": "latest"},
        {"value.schema": "registry", "value.registry": "http://localhost:8081"},
        {"sink.format": "delta", "sink.mode": "overwrite", "output.mode": "complete"},
        {"sink.format": "delta", "auto.evolve": "true"},
        {"starting.offsets": '{"orders":{"0":23,"1":-2}}'},
        {"spark.reader": "auto", "exactly.once": "auto"},
        {"spark.reader": "python"},
        {"checkpoint.cleanup": "true"},
        {"errors.tolerance": "all", "errors.log.enable": "true"},
        {"errors.log.enable": "true", "errors.log.include.messages": "true"},
        {"transforms.sql": "SELECT id FROM source", "transforms": " "},
        {"spark.master": "local"},
        {"spark.master": "local[*, 3]"},
        {"spark.master": "spark://a:7077,b-2.example:7077"},
        {"spark.master": "spark://[::1]:7077"},
        {"spark.master": "k8s://https://127.0.0.1:6443"},
        {"spark.master": "yarn", "spark.deploy": "submit"},
        {"spark.deploy": "remote", "spark.remote": "sc://host"},
        {"spark.deploy": "remote", "spark.remote": "sc://host:15002/;token=a=b;use_ssl=true"},
        {"sink.format": "topic", "sink.topic": "copies"},
    ],
)
def test_what_spark_takes_is_good(changed: dict[str, str]) -> None:
    assert config(**changed).originals.items() >= changed.items()


def test_a_missing_checkpoint_is_named() -> None:
    given = {name: text for name, text in ORDERS_LAKE.items() if name != "checkpoint.location"}

    with pytest.raises(ConfigError, match=r"checkpoint\.location"):
        SparkSinkConfig.of(given)


def test_settings_of_spark_pass_through() -> None:
    found = config(**{"spark.conf.driver.memory": "2g", "trigger": "processing 5 seconds"})

    assert found.spark_conf == {"spark.driver.memory": "2g"}
    assert found.trigger_interval_ms == 5000
    assert not found.is_available_now


def test_packages_join_those_of_sparks_own_setting() -> None:
    name = "spark.jars.packages"
    assert config(**{"spark.packages": "a:b:1, c:d:2"}).spark_conf == {name: "a:b:1,c:d:2"}

    both = config(**{"spark.packages": "a:b:1,c:d:2", "spark.conf.jars.packages": "c:d:2,e:f:3"})
    assert both.spark_conf == {name: "c:d:2,e:f:3,a:b:1"}


def test_folders_are_columns_or_dates() -> None:
    assert config(**{"partition.by": "country, date(_timestamp)"}).partition_columns() == [
        ("country", None),
        ("date", "_timestamp"),
    ]


@pytest.mark.parametrize("props", [{}, {"topics": "a", "topics.regex": "b"}])
def test_topics_are_named_one_way(props: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="give either topics or"):
        subscription(props)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("delta", "exactly once"),
        ("jdbc", "exactly once"),
        ("topic", "exactly once"),
        ("noop", "none"),
    ],
)
def test_each_sink_says_what_it_promises(kind: str, words: str) -> None:
    more = {"sink.format": kind, "sink.table": "t", "jdbc.url": "sqlite://", "sink.topic": "t"}

    assert config(**more).guarantee.startswith(words)


def test_a_sink_without_transactions_says_so() -> None:
    more = {"sink.format": "topic", "sink.topic": "t", "exactly.once": "off"}

    assert config(**more).guarantee.startswith("at least once")


def test_a_guarantee_says_what_becomes_of_bad_records() -> None:
    tolerant = {"errors.tolerance": "all"}
    letters = {**tolerant, "errors.deadletterqueue.topic.name": "d"}

    assert "bad records" not in config().guarantee
    assert config(**tolerant).guarantee.endswith("; bad records are dropped")
    assert config(**letters).guarantee.endswith("dead letter topic, exactly once")
    text = {"value.format": "string", "value.schema": ""}
    assert "bad records" not in config(**tolerant, **text).guarantee


def test_a_batch_that_the_runner_writes_has_a_limit() -> None:
    assert config().max_batch_records is None
    assert config(**{"sink.format": "delta"}).max_batch_records == 1_000_000
    assert config(**{"sink.format": "delta", "max.offsets.per.trigger": "5"}).max_batch_records == 5
