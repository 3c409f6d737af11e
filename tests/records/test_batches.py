"""Finding, building and stamping batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import CorruptRecord
from tests.records.editions import edition
from tests.records.golden import BATCHES, ROWS
from tests.records.strategies import NOW, rows

CODECS = range(5)


def log_of(records: Any, count: int = 4) -> tuple[bytes, list[int]]:
    """Batches back to back, and where each begins."""
    log, starts = b"", []
    for index in range(count):
        starts.append(len(log))
        log += records.encode_batch(ROWS, index * 10, codec=records.Codec(index % 5))
    return log, starts


def test_a_walk_finds_every_batch_where_it_is(records: Any) -> None:
    log, starts = log_of(records)
    batches = list(records.walk(log))
    assert [batch.position for batch in batches] == starts
    assert [batch.end for batch in batches] == [*starts[1:], len(log)]
    assert [batch.header.base_offset for batch in batches] == [0, 10, 20, 30]
    assert all(earlier.end == later.position for earlier, later in pairwise(batches))
    assert [batch.position for batch in records.walk(log, starts[2])] == starts[2:]


def test_a_walk_ends_quietly_at_a_batch_cut_short(records: Any) -> None:
    log, starts = log_of(records)
    for size in range(len(log)):
        whole = [start for start in [*starts, len(log)][1:] if start <= size]
        assert len(list(records.walk(log[:size]))) == len(whole)
        assert records.whole_bytes(log[:size]) == (whole[-1] if whole else 0)
        last = starts[len(whole) - 1] if whole else 0
        assert records.find_last(log[:size]) == (len(whole), last)


def test_the_last_batch_is_found_before_what_is_none(records: Any) -> None:
    log, starts = log_of(records, 3)
    for damage in (bytes(100), log[:16] + b"\1" + log[17:], log[:8] + bytes(4) + log[12:]):
        assert records.find_last(log + damage) == (3, starts[2])
        assert records.find_last(damage + log) == (0, 0)


def test_a_walk_refuses_bytes_that_are_no_batch(records: Any) -> None:
    log, _ = log_of(records, 2)
    walked = records.walk(log + bytes(100))
    assert len([next(walked), next(walked)]) == 2
    with pytest.raises(CorruptRecord) as caught:
        next(walked)
    assert caught.value.context["at"] == len(log)
    with pytest.raises(CorruptRecord):
        records.whole_bytes(log + bytes(100))


def test_a_walk_copies_nothing(records: Any) -> None:
    log, _ = log_of(records)
    changing = bytearray(log)
    first = next(records.walk(changing))
    changing[0] = 0x7F
    assert first.data[0] == 0x7F


def test_records_of_several_batches_come_in_order_without_control_records(records: Any) -> None:
    log, _ = log_of(records)
    found = list(records.iter_records(log + BATCHES["commit"]))
    assert [record.offset for record in found] == [
        base + delta for base in (0, 10, 20, 30) for delta in range(4)
    ]
    assert [record.value for record in found[:4]] == [row[2] for row in ROWS]
    assert list(records.iter_records(records.walk(log))) == found


def test_reading_several_batches_checks_their_checksums(records: Any) -> None:
    log, starts = log_of(records)
    damaged = bytearray(log)
    damaged[starts[1] + 30] ^= 1
    found = records.iter_records(damaged)
    assert [next(found).offset for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(CorruptRecord, match="checksum") as caught:
        next(found)
    assert caught.value.context["at"] == starts[1]


def test_a_batch_is_exactly_its_bytes(records: Any) -> None:
    with pytest.raises(CorruptRecord, match="batch length"):
        records.open_batch(BATCHES["none"] + b"\0")
    with pytest.raises(CorruptRecord, match="batch length"):
        records.open_batch(BATCHES["none"][:-1])


def test_offset_and_epoch_are_stamped_without_a_new_checksum(records: Any) -> None:
    log, starts = log_of(records)
    buffer = bytearray(log)
    before = records.read_header(buffer, starts[2])
    records.stamp(memoryview(buffer), 777, 5, position=starts[2])
    after = records.read_header(buffer, starts[2])
    assert after == before._replace(base_offset=777, partition_leader_epoch=5)
    batch = list(records.walk(buffer))[2]
    batch.check_crc()
    assert [record.offset for record in batch.records()] == [777, 778, 779, 780]
    assert buffer[: starts[2]] == log[: starts[2]]
    assert buffer[starts[3] :] == log[starts[3] :]


def test_append_time_holds_for_all_records(records: Any) -> None:
    log, starts = log_of(records)
    buffer = bytearray(log)
    records.stamp(buffer, 10, 1, position=starts[1], append_time_ms=NOW + 99)
    batch = list(records.walk(buffer))[1]
    batch.check_crc()
    assert batch.header.is_log_append_time
    assert batch.header.max_timestamp == NOW + 99
    assert {record.timestamp for record in batch.records()} == {NOW + 99}
    assert set(batch.columns().timestamps) == {NOW + 99}
    assert {entry.timestamp for entry in batch.entries()} == {NOW + 99}


def test_a_wrong_max_timestamp_is_repaired_in_place(records: Any) -> None:
    batch = records.encode_batch(ROWS)
    records.stamp(batch, 0, 0, max_timestamp=5)
    judged = records.validate(batch)
    assert judged.claims_wrong_timestamp
    records.stamp(batch, 0, 0, max_timestamp=judged.timestamp_max)
    assert not records.validate(batch).claims_wrong_timestamp


@pytest.mark.parametrize("codec", CODECS)
def test_a_builder_makes_what_bulk_encoding_makes(records: Any, codec: int) -> None:
    codec = records.Codec(codec)
    builder = records.BatchBuilder(codec=codec)
    assert [builder.append(*row) for row in ROWS] == [0, 1, 2, 3]
    bulk = records.encode_batch(ROWS, 5, codec=codec, leader_epoch=2)
    assert builder.build(5, leader_epoch=2) == bulk
    assert isinstance(bulk, bytearray)
    header = records.validate(bulk).batch.header
    assert (header.base_timestamp, header.max_timestamp) == (ROWS[0][0], NOW + 5)


def test_a_full_builder_says_so_and_keeps_what_it_has(records: Any) -> None:
    builder = records.BatchBuilder(200)
    taken = []
    while builder.append(NOW, b"key", b"x" * 20) is not None:
        taken.append(builder.size_bytes)
    assert builder.count == len(taken) == 4
    assert builder.size_bytes == taken[-1] <= 200
    assert builder.append(NOW, None, b"small") is not None
    batch = builder.build()
    assert len(batch) == builder.size_bytes
    assert len(records.decode_batch(batch)) == 5


def test_the_first_record_always_fits(records: Any) -> None:
    builder = records.BatchBuilder(100)
    assert builder.append(NOW, None, b"x" * 5000) == 0
    assert builder.append(NOW, None, None) is None
    assert records.decode_batch(builder.build())[0].value == b"x" * 5000


def test_bulk_appending_stops_at_the_limit_and_goes_on_elsewhere(records: Any) -> None:
    given_rows = [(NOW, None, b"%04d" % index, ()) for index in range(100)]
    start, values = 0, []
    while start < len(given_rows):
        builder = records.BatchBuilder(300)
        taken = builder.extend(given_rows, start)
        assert taken
        start += taken
        batch = builder.build()
        assert len(batch) <= 300
        values += [record.value for record in records.decode_batch(batch)]
    assert values == [row[2] for row in given_rows]


def test_starting_behind_the_rows_takes_none(records: Any) -> None:
    builder = records.BatchBuilder()
    assert builder.extend(ROWS, 4) == builder.extend(ROWS, 99) == builder.extend([]) == 0
    with pytest.raises(ValueError, match="negative"):
        builder.extend(ROWS, -1)


def test_columns_go_in_and_come_out(records: Any) -> None:
    timestamps, keys, values, headers = map(list, zip(*ROWS, strict=True))
    builder = records.BatchBuilder()
    assert builder.extend_columns(timestamps, values, keys, headers) == 4
    batch = builder.build(42, leader_epoch=7)
    assert batch == BATCHES["none"]
    columns = records.open_batch(batch).columns()
    assert columns == ([42, 43, 44, 45], timestamps, keys, values, headers)


def test_values_alone_make_a_batch(records: Any) -> None:
    builder = records.BatchBuilder()
    assert builder.extend_columns(NOW, [b"a", None, b"c"]) == 3
    columns = records.open_batch(builder.build()).columns()
    assert columns == ([0, 1, 2], [NOW] * 3, [None] * 3, [b"a", None, b"c"], [()] * 3)
    with pytest.raises(ValueError, match="argument 2 is longer"):
        records.BatchBuilder().extend_columns(NOW, [b"a"], [b"k", b"l"])


def test_a_batch_needs_a_record(records: Any) -> None:
    with pytest.raises(ValueError, match="needs a record"):
        records.BatchBuilder().build()
    with pytest.raises(ValueError, match="needs a record"):
        records.encode_batch([])


def test_a_builder_is_spent_by_building(records: Any) -> None:
    builder = records.BatchBuilder()
    builder.append(NOW, None, b"v")
    builder.build()
    with pytest.raises(ValueError, match="taken"):
        builder.build()


def test_producer_fields_are_written_and_may_be_stamped_again(records: Any) -> None:
    producer = records.Producer(7, 1, 2**31 - 3, is_transactional=True)
    batch = records.encode_batch(ROWS, producer=producer)
    header = records.validate(batch).batch.header
    assert header.has_producer_id
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 2**31 - 3)
    assert header.last_sequence == 0
    records.stamp_producer(batch, records.Producer(7, 2, 0))
    header = records.validate(batch).batch.header
    assert (header.producer_epoch, header.base_sequence, header.last_sequence) == (2, 0, 3)
    assert not header.is_transactional


def test_a_batch_without_a_producer_has_no_sequence(records: Any) -> None:
    header = records.read_header(BATCHES["none"])
    assert not header.has_producer_id
    assert header.last_sequence == -1
    assert (header.last_offset, header.next_offset) == (45, 46)
    assert header.size_bytes == len(BATCHES["none"])
    assert header.delete_horizon_ms is None


@given(rows, st.sampled_from(CODECS))
def test_what_is_built_is_valid_and_comes_back(given_rows: list[Any], codec: int) -> None:
    for which in ("compiled", "pure"):
        records = edition(which)[""]
        batch = records.encode_batch(given_rows, 9, codec=records.Codec(codec))
        judged = records.validate(batch, records.LOGGED)
        assert not judged.claims_wrong_timestamp
        assert (judged.timestamp_min, judged.timestamp_max) == (
            min(row[0] for row in given_rows),
            max(row[0] for row in given_rows),
        )
        decoded = records.decode_batch(batch)
        assert [(r.timestamp, r.key, r.value, r.headers) for r in decoded] == given_rows
        assert decoded[-1].offset == judged.batch.header.last_offset
