"""What is set reaches the log, the cleaner and the periodic work; defaults are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.log_settings import (
    CleanerOptions,
    UpkeepOptions,
    cleaner_options,
    log_config,
    upkeep_options,
)
from moldau.broker.settings import broker_settings, topic_settings
from moldau.config import GivenValue, Settings, Source, SourceKind
from moldau.records import Codec

BROKER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


def broker(values: Mapping[str, str] = {}) -> Settings:
    place = Source(SourceKind.FILE, "server.properties")
    return broker_settings(
        tuple(GivenValue(name, value, place) for name, value in {**BROKER, **values}.items())
    )


def of_topic(values: Mapping[str, str], broker_values: Mapping[str, str] = {}) -> LogConfig:
    return log_config(topic_settings("t", values, broker(broker_values)))


def test_without_settings_all_is_as_kafka_has_it() -> None:
    assert of_topic({}) == LogConfig()
    assert cleaner_options(broker()) == CleanerOptions()
    assert upkeep_options(broker()) == UpkeepOptions()


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("segment.bytes", "2000000", "segment_bytes", 2_000_000),
        ("internal.segment.bytes", "500", "segment_bytes", 500),
        ("segment.ms", "7", "segment_ms", 7),
        ("segment.jitter.ms", "7", "segment_jitter_ms", 7),
        ("segment.index.bytes", "70", "segment_index_bytes", 70),
        ("index.interval.bytes", "7", "index_interval_bytes", 7),
        ("flush.messages", "7", "flush_messages", 7),
        ("flush.ms", "7", "flush_ms", 7),
        ("retention.bytes", "7", "retention_bytes", 7),
        ("retention.ms", "7", "retention_ms", 7),
        ("max.message.bytes", "7", "max_message_bytes", 7),
        ("message.timestamp.type", "LogAppendTime", "is_append_time", True),
        ("message.timestamp.before.max.ms", "7", "timestamp_before_max_ms", 7),
        ("message.timestamp.after.max.ms", "7", "timestamp_after_max_ms", 7),
        ("compression.type", "uncompressed", "compression", Codec.NONE),
        ("compression.type", "zstd", "compression", Codec.ZSTD),
        ("preallocate", "true", "preallocate", True),
        ("file.delete.delay.ms", "7", "file_delete_delay_ms", 7),
    ],
)
def test_each_setting_of_a_topic_arrives(
    name: str, value: str, field: str, expected: object
) -> None:
    found = of_topic({name: value})
    assert getattr(found, field) == expected
    assert getattr(LogConfig(), field) != expected


@pytest.mark.parametrize(
    ("policy", "is_deleted", "is_compacted"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact,delete", True, True),
        ("", False, False),
    ],
)
def test_cleanup_policies(policy: str, is_deleted: bool, is_compacted: bool) -> None:
    found = of_topic({"cleanup.policy": policy})
    assert (found.is_deleted, found.is_compacted) == (is_deleted, is_compacted)


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 5), ("lz4", 4), ("zstd", -7), ("snappy", None), ("producer", None)],
)
def test_each_codec_has_its_own_level(codec: str, level: int | None) -> None:
    levels = {
        "compression.gzip.level": "5",
        "compression.lz4.level": "4",
        "compression.zstd.level": "-7",
    }
    assert of_topic({"compression.type": codec, **levels}).compression_level == level


def test_compaction_has_its_policy() -> None:
    found = of_topic(
        {
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "1",
            "max.compaction.lag.ms": "2",
            "delete.retention.ms": "3",
        }
    )
    assert found.compaction == CompactionPolicy(0.25, 1, 2, 3)


def test_a_segment_of_a_compacted_topic_is_closed_before_it_must_be_compacted() -> None:
    lag = {"max.compaction.lag.ms": "5000"}
    assert of_topic({**lag, "cleanup.policy": "compact"}).segment_ms == 5000
    assert of_topic(lag).segment_ms == LogConfig().segment_ms


def test_what_a_topic_does_not_say_the_broker_does() -> None:
    found = of_topic({}, {"log.retention.hours": "2", "producer.id.expiration.ms": "9"})
    assert (found.retention_ms, found.producer_expiration_ms) == (7_200_000, 9)


def test_the_cleaner_and_the_periodic_work_are_told() -> None:
    settings = broker(
        {
            "log.cleaner.threads": "3",
            "log.cleaner.dedupe.buffer.size": "9000000",
            "log.cleaner.io.buffer.load.factor": "0.5",
            "log.cleaner.io.max.bytes.per.second": "1000",
            "log.cleaner.backoff.ms": "4",
            "log.initial.task.delay.ms": "5",
            "log.retention.check.interval.ms": "6",
            "log.flush.scheduler.interval.ms": "7",
            "log.flush.offset.checkpoint.interval.ms": "80",
            "log.flush.start.offset.checkpoint.interval.ms": "8",
            "replica.high.watermark.checkpoint.interval.ms": "9",
            "producer.id.expiration.check.interval.ms": "10",
        }
    )
    assert cleaner_options(settings) == CleanerOptions(3, 9_000_000, 0.5, 1000.0, 4)
    assert upkeep_options(settings) == UpkeepOptions(5, 6, 7, 8, 9, 10)
    assert cleaner_options(broker({"log.cleaner.enable": "false"})).threads == 0
