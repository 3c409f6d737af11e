"""What a leader takes and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.errors import CorruptRecord
from tests.records.golden import BATCHES, ROWS
from tests.records.lying_batch import lying
from tests.records.strategies import NOW


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd", "transactional"])
def test_kafkas_batches_are_taken(records: Any, name: str) -> None:
    judged = records.validate(BATCHES[name])
    base = judged.batch.header.base_offset
    assert (judged.timestamp_min, judged.timestamp_max) == (ROWS[2][0], NOW + 5)
    assert judged.offset_of_timestamp_max == base + 1, "the first of equals"
    assert not judged.claims_wrong_timestamp


def test_a_followers_batches_may_be_what_a_client_may_not_send(records: Any) -> None:
    for name in ("commit", "append_time"):
        assert records.validate(BATCHES[name], records.LOGGED)
        with pytest.raises(records.InvalidRecord):
            records.validate(BATCHES[name])


def test_append_time_is_an_invalid_timestamp_and_not_just_an_invalid_record(records: Any) -> None:
    with pytest.raises(records.InvalidTimestamp):
        records.validate(BATCHES["append_time"])


def test_damage_is_told_from_lies(records: Any) -> None:
    damaged = bytearray(BATCHES["none"])
    damaged[100] ^= 1
    with pytest.raises(CorruptRecord, match="checksum") as caught:
        records.validate(damaged)
    assert not isinstance(caught.value, records.InvalidRecord)
    with pytest.raises(records.InvalidRecord):
        records.validate(lying(BATCHES["none"], record_count=3))


def test_gaps_are_for_logs_only(records: Any) -> None:
    whole = records.open_batch(records.encode_batch(ROWS))
    gappy = records.retain(whole, lambda entry: entry.offset != 1)
    assert records.validate(gappy, records.LOGGED).batch.header.record_count == 3
    with pytest.raises(records.InvalidRecord, match="does not match"):
        records.validate(gappy)
    with pytest.raises(records.InvalidRecord, match="not the record's index"):
        records.validate(lying(bytes(gappy), last_offset_delta=2, record_count=3))


def test_compacted_topics_need_keys(records: Any) -> None:
    rules = records.Rules(needs_keys=True)
    keyed = [(NOW, b"", b"v", ()), (NOW, b"k", None, ())]
    assert records.validate(records.encode_batch(keyed), rules)
    with pytest.raises(records.InvalidRecord, match="key is null") as caught:
        records.validate(records.encode_batch([*keyed, (NOW, None, b"v", ())]), rules)
    assert caught.value.context["record"] == 2


def test_timestamps_are_bounded_where_the_topic_says_so(records: Any) -> None:
    batch = records.encode_batch([(NOW, None, b"a", ()), (NOW + 10, None, b"b", ())])
    assert records.validate(batch, records.Rules(timestamp_ms_min=NOW, timestamp_ms_max=NOW + 10))
    with pytest.raises(records.InvalidTimestamp, match="too old"):
        records.validate(batch, records.Rules(timestamp_ms_min=NOW + 1))
    with pytest.raises(records.InvalidTimestamp, match="too new"):
        records.validate(batch, records.Rules(timestamp_ms_max=NOW + 9))


def test_records_without_a_timestamp_are_taken_and_negative_ones_are_not(records: Any) -> None:
    batch = records.encode_batch([(-1, None, b"a", ())])
    assert records.validate(batch, records.Rules(timestamp_ms_min=NOW)).timestamp_max == -1
    with pytest.raises(records.InvalidTimestamp, match="negative"):
        records.validate(records.encode_batch([(-2, None, b"a", ())]))


def test_empty_batches_are_for_logs_only(records: Any) -> None:
    batch = records.open_batch(BATCHES["transactional"])
    empty = records.retain(batch, lambda entry: False, keep_empty=True)
    judged = records.validate(empty, records.LOGGED)
    assert (judged.timestamp_min, judged.timestamp_max) == (-1, -1)
    assert not judged.claims_wrong_timestamp
    with pytest.raises(records.InvalidRecord):
        records.validate(empty)


@pytest.mark.parametrize("codec", range(1, 5))
def test_bombs_are_refused(records: Any, codec: int) -> None:
    batch = records.encode_batch([(NOW, None, bytes(8 << 20), ())], codec=records.Codec(codec))
    assert records.validate(batch)
    with pytest.raises(records.OversizedRecords, match="more than the limit"):
        records.validate(batch, records.Rules(decompressed_bytes_max=1 << 20))
    with pytest.raises(CorruptRecord, match="more than the limit"):
        records.decode_batch(batch, 1 << 20)


def test_validating_changes_nothing(records: Any) -> None:
    batch = bytearray(BATCHES["zstd"])
    records.validate(batch)
    assert batch == BATCHES["zstd"]
