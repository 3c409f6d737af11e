"""Bytes equal to Apache Kafka's, both ways."""

from __future__ import annotations

from typing import Any

import cramjam
import pytest

from tests.records.golden import BATCHES, MURMUR2, ROWS, STRING_HASHES

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def fields(records: list[Any]) -> list[tuple[object, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


@pytest.mark.parametrize("codec", CODECS)
def test_what_kafka_wrote_is_read(records: Any, codec: str) -> None:
    assert fields(records.decode_batch(BATCHES[codec])) == [
        (42 + index, *row) for index, row in enumerate(ROWS)
    ]
    assert records.validate(BATCHES[codec]).batch.header.partition_leader_epoch == 7


def test_plain_batches_have_kafkas_bytes(records: Any) -> None:
    assert records.encode_batch(ROWS, 42, leader_epoch=7) == BATCHES["none"]


def test_transactional_batches_have_kafkas_bytes(records: Any) -> None:
    producer = records.Producer(9000, 5, 2147483646, is_transactional=True)
    built = records.encode_batch(ROWS, 3, leader_epoch=11, producer=producer)
    assert built == BATCHES["transactional"]
    assert records.read_header(built).last_sequence == 1


def test_append_time_is_stamped_as_kafka_does(records: Any) -> None:
    built = records.encode_batch(ROWS)
    records.stamp(built, 5, -1, append_time_ms=1700000009999)
    assert built == BATCHES["append_time"]
    assert {record.timestamp for record in records.decode_batch(built)} == {1700000009999}


def test_end_of_transaction_has_kafkas_bytes(records: Any) -> None:
    marker = [(records.ControlType.COMMIT, bytes.fromhex("000000000011"))]
    producer = records.Producer(9000, 5, is_transactional=True)
    built = records.encode_control_batch(
        marker, 1700000000000, 99, leader_epoch=3, producer=producer
    )
    assert built == BATCHES["commit"]


def test_xerial_snappy_has_kafkas_bytes(records: Any) -> None:
    theirs = records.open_batch(BATCHES["snappy"])
    ours = records.encode_batch(ROWS, codec=records.Codec.SNAPPY)
    assert bytes(ours[61:77]) == bytes(theirs.data[61:77])
    assert records.open_batch(ours).section() == theirs.section()


def test_raw_snappy_is_read_as_librdkafka_sends_it(records: Any) -> None:
    batch = records.open_batch(BATCHES["none"])
    raw = bytes(cramjam.snappy.compress_raw(batch.section()))
    assert records.decompress(records.Codec.SNAPPY, raw) == batch.section()


@pytest.mark.parametrize(("key", "hashed"), MURMUR2.items())
def test_keys_hash_as_in_java(records: Any, key: bytes, hashed: int) -> None:
    assert records.murmur2(key) == hashed
    assert records.partition_for_key(key, 50) == (hashed & 0x7FFFFFFF) % 50


@pytest.mark.parametrize(("name", "hashed"), STRING_HASHES.items())
def test_names_hash_as_in_java(records: Any, name: str, hashed: int) -> None:
    assert records.java_string_hash(name) == hashed
    expected = 0 if hashed == -(2**31) else abs(hashed) % 50
    assert records.coordinator_partition(name, 50) == expected


def test_the_two_ways_to_be_positive_differ(records: Any) -> None:
    assert records.to_positive(-1) == 0x7FFFFFFF
    assert records.to_positive(-(2**31)) == 0
    assert records.coordinator_partition("polygenelubricants", 50) == 0
