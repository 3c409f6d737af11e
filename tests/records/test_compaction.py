"""Writing a batch again with fewer records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.editions import edition
from tests.records.golden import BATCHES
from tests.records.strategies import NOW, rows

HORIZON = NOW + 86_400_000


def facts(header: Any) -> tuple[int, ...]:
    """What compaction must never change."""
    return (
        header.base_offset,
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.partition_leader_epoch,
        header.is_transactional,
        header.is_control,
    )


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd", "transactional"])
def test_kept_records_stay_where_and_what_they_were(records: Any, name: str) -> None:
    batch = records.open_batch(BATCHES[name])
    base = batch.header.base_offset
    kept = records.open_batch(records.retain(batch, lambda entry: entry.offset in (base, base + 3)))
    kept.check_crc()
    assert facts(kept.header) == facts(batch.header)
    assert kept.codec is batch.codec
    before = batch.records()
    assert kept.records() == [before[0], before[3]]
    assert kept.header.record_count == 2


def test_the_newest_timestamp_is_that_of_what_is_kept(records: Any) -> None:
    batch = records.open_batch(BATCHES["none"])
    kept = records.read_header(records.retain(batch, lambda entry: entry.offset in (42, 44)))
    assert kept.max_timestamp == NOW
    appended = records.open_batch(BATCHES["append_time"])
    kept = records.read_header(records.retain(appended, lambda entry: entry.offset == 7))
    assert kept.max_timestamp == appended.header.max_timestamp


def test_a_batch_that_loses_nothing_is_not_copied(records: Any) -> None:
    batch = records.open_batch(BATCHES["lz4"])
    assert records.retain(batch, lambda entry: True) is batch.data


def test_a_batch_that_loses_all_is_gone_or_empty(records: Any) -> None:
    batch = records.open_batch(BATCHES["transactional"])
    assert records.retain(batch, lambda entry: False) is None
    empty = records.open_batch(records.retain(batch, lambda entry: False, keep_empty=True))
    empty.check_crc()
    assert len(empty.data) == 61
    assert facts(empty.header) == facts(batch.header)
    assert empty.header.max_timestamp == batch.header.max_timestamp
    assert empty.records() == empty.entries() == []
    assert empty.columns() == ([], [], [], [], [])


def test_an_empty_batch_has_no_codec_and_stays_empty(records: Any) -> None:
    batch = records.open_batch(BATCHES["zstd"])
    empty = records.open_batch(records.retain(batch, lambda entry: False, keep_empty=True))
    assert empty.codec is records.Codec.NONE
    again = records.retain(empty, lambda entry: True, keep_empty=True)
    assert again == empty.data


@pytest.mark.parametrize("name", ["none", "zstd"])
def test_a_delete_horizon_keeps_the_timestamps(records: Any, name: str) -> None:
    batch = records.open_batch(BATCHES[name])
    kept = records.open_batch(
        records.retain(batch, lambda entry: entry.offset != 42, delete_horizon_ms=HORIZON)
    )
    assert kept.header.delete_horizon_ms == kept.header.base_timestamp == HORIZON
    assert kept.records() == batch.records()[1:]
    assert records.validate(kept.data, records.LOGGED)


def test_a_delete_horizon_alone_rewrites_the_batch_once(records: Any) -> None:
    batch = records.open_batch(BATCHES["none"])
    marked = records.open_batch(records.retain(batch, lambda _: True, delete_horizon_ms=HORIZON))
    assert marked.header.delete_horizon_ms == HORIZON
    assert marked.records() == batch.records()
    later = records.retain(marked, lambda _: True, delete_horizon_ms=HORIZON + 1)
    assert later is marked.data


def test_an_empty_batch_has_no_delete_horizon(records: Any) -> None:
    """Its base timestamp is none, which must not be read as a time that is long over."""
    batch = records.open_batch(BATCHES["none"])
    marked = records.open_batch(records.retain(batch, lambda _: True, delete_horizon_ms=HORIZON))
    empty = records.read_header(records.retain(marked, lambda _: False, keep_empty=True))
    assert empty.delete_horizon_ms is None
    assert empty.base_timestamp == -1


def test_a_delete_horizon_that_no_delta_can_reach_is_left_out(records: Any) -> None:
    batch = records.open_batch(records.encode_batch([(-(2**63), b"k", None, ())]))
    kept = records.retain(batch, lambda entry: True, delete_horizon_ms=HORIZON)
    assert kept is batch.data


def test_tombstones_can_be_told_from_empty_values(records: Any) -> None:
    batch = records.open_batch(
        records.encode_batch([(NOW, b"a", None, ()), (NOW, b"b", b"", ()), (NOW, b"c", b"1", ())])
    )
    assert [(entry.key, entry.value_bytes) for entry in batch.entries()] == [
        (b"a", -1),
        (b"b", 0),
        (b"c", 1),
    ]


def test_header_keys_that_cannot_be_read_survive(records: Any) -> None:
    unreadable = (NOW, b"b", b"", (("\x7f", b"1"),))
    batch = records.encode_batch([(NOW, b"a", b"", ()), unreadable])
    batch[batch.index(b"\x7f", 61)] = 0xFF
    records.stamp(batch, 0, 0, max_timestamp=NOW)  # seals it again
    opened = records.open_batch(batch)
    assert opened.records()[1].headers == (("\ufffd", b"1"),)
    kept = records.retain(opened, lambda entry: entry.key == b"b")
    assert b"\xff\x02" + b"1" in bytes(kept)


@given(rows, st.integers(0, 2**32 - 1), st.booleans(), st.integers(0, 4))
def test_any_choice_of_records_survives(
    given_rows: list[Any], choice: int, marks: bool, codec: int
) -> None:
    for which in ("compiled", "pure"):
        records = edition(which)[""]
        batch = records.open_batch(
            records.encode_batch(given_rows, 100, codec=records.Codec(codec))
        )
        chosen = {100 + bit for bit in range(90) if choice >> (bit % 32) & 1}
        kept = records.retain(
            batch,
            lambda entry, chosen=chosen: entry.offset in chosen,
            delete_horizon_ms=HORIZON if marks else None,
            keep_empty=True,
        )
        expected = [record for record in batch.records() if record.offset in chosen]
        judged = records.validate(kept, records.LOGGED)
        assert judged.batch.records() == expected
        assert facts(judged.batch.header) == facts(batch.header)
        assert records.read_header(batch.data) == batch.header
