"""Options of the data source, and what they refuse."""

from __future__ import annotations

import pytest

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.errors import ConfigError
from moldau.spark.options import ReadOptions, duration_ms, parse_read, unused_options

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders, payments"}


def read(is_stream: bool = False, /, **options: str) -> ReadOptions:
    return parse_read({**BASE, **options}, is_stream=is_stream)


def test_names_ignore_case() -> None:
    options = parse_read(
        {
            "Kafka.Bootstrap.Servers": "localhost:9092",
            "SUBSCRIBE": "orders",
            "failondataloss": "False",
            "INCLUDEHEADERS": "true",
        },
        is_stream=False,
    )

    assert options.subscription.topics == ("orders",)
    assert not options.fail_on_data_loss
    assert options.include_headers


def test_defaults_are_those_of_the_kafka_source() -> None:
    batch, stream = read(), read(True)

    assert (batch.starting.edge, batch.ending.edge) == (EARLIEST, LATEST)
    assert stream.starting.edge == LATEST
    assert batch.fail_on_data_loss
    assert batch.max_delay_ms == 900_000
    assert batch.group is None
    assert batch.subscription.topics == ("orders", "payments")


def test_offsets_are_given_by_partition() -> None:
    options = read(startingOffsets='{"orders":{"0":23,"1":-2}}')

    assert options.starting.offsets == {
        TopicPartition("orders", 0): 23,
        TopicPartition("orders", 1): -2,
    }


def test_a_time_wins_over_offsets() -> None:
    options = read(startingTimestamp="5", startingOffsets="earliest")

    assert options.starting.time_ms == 5
    assert options.starting.offsets is None


def test_a_group_is_named_or_made_of_a_prefix() -> None:
    assert read(**{"kafka.group.id": "lake"}).group == "lake"
    assert read(groupIdPrefix="lake").group == "lake-orders,payments"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.bootstrap.servers": " "}, "give the brokers"),
        ({"subscribePattern": "o.*"}, "exactly one of the options"),
        ({"subscribe": ""}, "it is empty"),
        ({"startingOffsets": "newest"}, "must be a keyword or a JSON object"),
        ({"startingOffsets": '{"orders":[1]}'}, "use a number for each partition"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "a batch cannot start at -1"),
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"maxOffsetsPerTrigger": "0"}, "1 or more"),
        ({"maxTriggerDelay": "soon"}, "use a time such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "maxOffsetsPerTrigger=8"),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "cannot start after its end"),
        (
            {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'},
            "cannot start after its end",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"orders":{"0":9}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":8}}',
            },
            "cannot start after its end",
        ),
        ({"startingOffsetsByTimestampStrategy": "first"}, "use one of error, latest"),
        ({"fetchOffset.numRetries": "0"}, "1 or more"),
        ({"fetchOffset.retryIntervalMs": "x"}, "0 or more"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "1 or more"),
        ({"minPartitions": "0"}, "1 or more"),
        ({"maxRecordsPerPartition": "-1"}, "1 or more"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "use a number for each partition"),
        ({"startingOffsets": '{"t": {"\u00b2": 1}}'}, "use a number for each partition"),
        ({"includeHeaders": "1"}, "use one of true, false"),
        ({"kafka.enable.auto.commit": "true"}, "Spark keeps offsets in its checkpoint"),
        ({"failOnDataLoss": "perhaps"}, "use one of true, false"),
        ({"kafka.key.deserializer": "X"}, "cast them in the query"),
        ({"value.format": "yaml"}, "use one of binary, string, json, avro"),
        ({"value.format": "protobuf"}, "value.format=protobuf needs it"),
        ({"value.format": "string", "value.registry": "http://r"}, "it is only for value.format="),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(**options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("endingOffsets", "latest"),
        ("endingTimestamp", "5"),
        ("endingOffsetsByTimestamp", '{"orders":{"0":8}}'),
    ],
)
def test_a_stream_has_no_end(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="a stream has no end"):
        read(True, **{name: text})


def test_an_edge_of_the_log_is_behind_nothing() -> None:
    options = read(
        startingOffsets='{"orders":{"0":9,"1":-2}}', endingOffsets='{"orders":{"0":-1,"1":0}}'
    )

    assert options.starting.offsets != options.ending.offsets


def test_questions_about_offsets_have_tries_and_pauses() -> None:
    assert (read().offset_tries, read().offset_interval_ms) == (1, 10)
    options = read(**{"fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "0"})
    assert (options.offset_tries, options.offset_interval_ms) == (5, 0)


def test_an_option_without_a_meaning_is_told() -> None:
    given = {
        **BASE, "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1m",
        "kafka.group.id": "lake", "GroupIdPrefix": "lake",
    }  # fmt: skip

    batch, stream = unused_options(given, is_stream=False), unused_options(given, is_stream=True)

    assert [line.split()[2] for line in batch[:3]] == [
        "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    ]  # fmt: skip
    assert batch[3:] == stream
    assert "groupIdPrefix is ignored" in stream[0]
    assert unused_options(BASE, is_stream=False) == []


def test_partitions_can_be_assigned() -> None:
    options = parse_read(
        {"kafka.bootstrap.servers": "b:1", "assign": '{"orders":[1,0]}'}, is_stream=False
    )

    assert options.subscription.partitions == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    )
    with pytest.raises(ConfigError, match="lists of partition numbers"):
        parse_read({"kafka.bootstrap.servers": "b:1", "assign": '{"o":["x"]}'}, is_stream=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15m", 900_000), ("10 seconds", 10_000), ("500ms", 500), ("7", 7), ("1 Hour", 3_600_000)],
)
def test_times_are_read_as_spark_writes_them(text: str, expected: int) -> None:
    assert duration_ms("maxTriggerDelay", text) == expected
